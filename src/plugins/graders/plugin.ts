/**
 * Graders: rewards as data, tried over HTTP in the words of OpenAI's fine-tuning, and by a command.
 */
import { definePlugin } from '#service/define-plugin.js'

export const graders = definePlugin({
  name: 'graders',
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
  },
  start: async ({ settings }) => (await import('./outside.js')).readOutside(settings),
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
