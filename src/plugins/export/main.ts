/**
 * Entry of an export process: takes one request over its IPC channel, answers, writes the wanted file to stdout, ends. Imports
 * of adapters, and what merges them, are done here as well; one that checks adapters is kept for the next.
 *
 * A process of its own because merging and converting compute for seconds and hold a tensor at a time in memory.
 */
import { pipeline } from 'node:stream/promises'
import { type Asker, answerProcess } from '#base/processes/ask-process.js'
import { checkAdapter } from './check-adapter.js'
import { importAdapter } from './import-adapter.js'
import { mergeAdapter } from './merge-adapter.js'
import { planExport } from './plan-export.js'
import type { CheckRequest, ExportReply, ExportRequest, ImportRequest, MergeRequest } from './requests.js'

async function sendExport(request: ExportRequest, asker: Asker<ExportReply>): Promise<void> {
  const plan = await planExport(request)
  await asker.answer({ type: 'files', files: plan.files.map(({ name, sizeBytes }) => ({ name, sizeBytes })) })
  const wanted = plan.files.find((file) => file.name === request.file)
  if (wanted !== undefined) await pipeline(wanted.bytes(), process.stdout)
  // where pipes are asynchronous, the last bytes leave before the process does
  await new Promise((resolve) => process.stdout.write('', resolve))
  await plan.close()
}

type Request = ExportRequest | ImportRequest | MergeRequest | CheckRequest

await answerProcess<Request, ExportReply>('export_failed', async (request, asker) => {
  if (request.type === 'export') return await sendExport(request, asker)
  if (request.type === 'check') {
    await checkAdapter(request)
    await asker.answer({ type: 'checked' })
    return 'next'
  }
  if (request.type === 'merge') return await asker.answer({ type: 'merged', notes: await mergeAdapter(request) })
  return await asker.answer({ type: 'imported', adapter: await importAdapter(request) })
})
