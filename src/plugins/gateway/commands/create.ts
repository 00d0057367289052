/**
 * `trainyard routes create`: an address that passes calls on to another service, and records them.
 */
import { defineCommand } from '#cli/command/define-command.js'
import { argument, flag } from '#cli/command/flags.js'
import { askedNamespace } from '#cli/command/page-flags.js'
import { createRouteCalls } from './calls.js'
import { routeFlags, toRouteRequest } from './route-flags.js'

export const createRoute = defineCommand({
  path: ['routes', 'create'],
  summary: 'Make an address that passes calls on and records them',
  details:
    'Programs take the address as base URL, with the upstream’s own key as ever and one of this server as header X-Trainyard-Key. Keys, tokens and e-mail addresses are masked before anything is written. The same once more is the same route.',
  examples: [
    ['trainyard routes create tickets --upstream https://api.openai.com/v1', 'for clients of OpenAI'],
    ['trainyard routes create mails --upstream https://api.anthropic.com --local', 'without a key of this server'],
    ['trainyard routes create staff --upstream https://api.openai.com/v1 --mask "EMP-\\d{6}" --sample 0.1', 'a tenth'],
  ],
  namespace: ['project'],
  args: { name: argument.required('of the route, as it stands in its address') },
  flags: { ...routeFlags, local: flag.switch('--local', 'programs of the server’s machine need no key of it') },
  exits: ['conflict'],
  next: ['trainyard routes get <name>'],
  async run({ connect, config, output, args, flags, signal }) {
    const { project } = askedNamespace(config)
    const client = await connect()
    const created = await createRouteCalls(client, signal).create({
      ...toRouteRequest(args.name, flags),
      ...(flags.local ? { access: 'local' } : {}),
      ...(project === undefined ? {} : { project }),
    })
    output.result(
      created,
      `${config.get('server').replace(/\/+$/, '')}${created.path} passes on to ${created.upstream}`,
      [created.id],
    )
  },
})
