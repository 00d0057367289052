/**
 * `trainyard open`: the service's documentation pages in a browser, or their address where there is none.
 */
import { defineCommand } from '#cli/command/define-command.js'

export const open = defineCommand({
  path: ['open'],
  summary: 'Open the pages of the service in a browser',
  details:
    'Prints the address, and opens a browser only on a terminal with a desktop. trainyard help pages names the pages.',
  examples: [
    ['trainyard open', 'the pages of the service in use'],
    ['trainyard open | cat', 'only their address'],
  ],
  args: {},
  flags: {},
  async run({ config, connect, environment, io, output, signal }) {
    const server = config.get('server').replace(/\/+$/, '')
    // a browser would only say that nothing is there
    await (await connect()).health({ signal })
    const url = `${server}/docs`
    output.result({ url }, url, [url])
    const isForPerson = output.mode === 'human' && io.stdout.isTerminal && !config.get('no-input')
    if (!isForPerson) return
    const { openInBrowser } = await import('#cli/local/user-program.js')
    if (!(await openInBrowser(url, environment))) output.hint('no browser was found here; open the address yourself')
  },
})
