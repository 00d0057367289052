/**
 * `trainyard ui`: the service's page in a browser, signed in by a code of the key in use; where there is no browser, its address.
 */
import { defineCommand } from '#cli/command/define-command.js'
import { argument } from '#cli/command/flags.js'
import { findModel, parseWholeModel } from '#cli/names/model-reference.js'

export const ui = defineCommand({
  path: ['ui'],
  summary: 'Open the page of the service in a browser, signed in',
  details:
    'The address holds a code that signs in once, within ten minutes, to what the key in use may do. A browser is opened only on a terminal with a desktop.',
  examples: [
    ['trainyard ui', 'the page of the service in use'],
    ['trainyard ui email-agent', 'the curves of a model'],
    ['trainyard ui | cat', 'only its address, for a browser elsewhere'],
  ],
  namespace: ['project', 'entity'],
  args: { model: argument.optional('whose curves are shown first; default: all models') },
  flags: {},
  exits: ['not_found'],
  next: ['trainyard open'],
  async run(context) {
    const { args, config, connect, environment, io, output, signal } = context
    const server = config.get('server').replace(/\/+$/, '')
    const client = await connect()
    const model = args.model === undefined ? null : await findModel(parseWholeModel(args.model), { ...context, client })
    const page = model === null ? '' : `models/${encodeURIComponent(model.project)}/${encodeURIComponent(model.name)}`
    const { code, expires_at } = await client.sessions.createCode({ signal })
    // under the address that this command reaches it by, which may be another than the server knows
    const url = `${server}/ui/${page}#code=${encodeURIComponent(code)}`
    output.result({ url, expires_at }, url, [url])
    const isForPerson = output.mode === 'human' && io.stdout.isTerminal && !config.get('no-input')
    if (!isForPerson) return
    const { openInBrowser } = await import('#cli/local/user-program.js')
    if (!(await openInBrowser(url, environment))) output.hint('no browser was found here; open the address yourself')
  },
})
