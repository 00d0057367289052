/**
 * Graders: rewards as data, tried over HTTP in the words of OpenAI's fine-tuning, and by a command.
 */
import { definePlugin } from '#service/define-plugin.js'

export const graders = definePlugin({
  name: 'graders',
  needs: ['rl-library'],
  endpoints: async () => (await import('./endpoints.js')).graderEndpoints,
  settings: {
    teachers: {
      key: 'teachers',
      type: 'list',
      default: [],
      flag: '--teacher <name=url,variable>',
      summary: 'model at another server that graders may ask, and the variable that holds its key',
    },
    hosts: {
      key: 'grader-hosts',
      type: 'list',
      default: [],
      flag: '--grader-host <host>',
      summary: 'host that graders may ask although it is private or plain http',
    },
    variables: {
      key: 'grader-variables',
      type: 'list',
      default: [],
      flag: '--grader-variable <name>',
      summary: 'variable that headers of graders may name',
    },
    allowPython: {
      key: 'allow-python-graders',
      type: 'choice',
      default: 'false',
      choices: ['false', 'true', 'unconfined'],
      flag: '--allow-python-graders [unconfined]',
      summary:
        'run graders in Python, behind walls: they compute, and neither read, send nor stay; =unconfined where the system gives no walls',
    },
  },
  start: async ({ settings, ...core }) => (await import('./start.js')).startGraders(core, settings),
  handlers: async (service) => (await import('./handlers.js')).graderHandlers(service),
  commands: {
    after: 'eval',
    rows: [
      {
        path: 'grader check',
        summary: 'Try a grader on an answer',
        load: async () => (await import('./commands/check.js')).checkGraderCommand,
      },
    ],
  },
})
