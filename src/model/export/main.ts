/**
 * Entry of an export process: takes one request over its IPC channel, answers, writes the wanted file to stdout, ends. Imports
 * of adapters are done here as well.
 *
 * A process of its own because merging and converting compute for seconds and hold a tensor at a time in memory.
 */
import { once } from 'node:events'
import { pipeline } from 'node:stream/promises'
import { toErrorMessage } from '#base/error-message.js'
import { importAdapter } from './import-adapter.js'
import { planExport } from './plan-export.js'
import type { ExportReply, ExportRequest, ImportRequest } from './protocol.js'

// what an import writes is in the data directory: its owner's alone
process.umask(0o077)

process.on('disconnect', () => process.exit(0))

function reply(message: ExportReply): Promise<void> {
  return new Promise((resolve) => process.send?.(message, undefined, undefined, () => resolve()))
}

async function serve(request: ExportRequest | ImportRequest): Promise<void> {
  if (request.type === 'import') await reply({ type: 'imported', adapter: await importAdapter(request) })
  else await sendExport(request)
}

async function sendExport(request: ExportRequest): Promise<void> {
  const plan = await planExport(request)
  await reply({ type: 'files', files: plan.files.map(({ name, sizeBytes }) => ({ name, sizeBytes })) })
  const wanted = plan.files.find((file) => file.name === request.file)
  if (wanted !== undefined) await pipeline(wanted.bytes(), process.stdout)
  // where pipes are asynchronous, the last bytes leave before the process does
  await new Promise((resolve) => process.stdout.write('', resolve))
  await plan.close()
}

const [request] = (await once(process, 'message')) as [ExportRequest | ImportRequest]
try {
  await serve(request)
  process.exit(0)
} catch (error) {
  await reply({ type: 'failed', error: toErrorMessage(error, { code: 'export_failed' }) })
  process.exit(1)
}
