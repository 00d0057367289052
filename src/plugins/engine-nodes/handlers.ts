/**
 * Engine nodes: what they ask with a key of scope `worker` (`contract/processes/engine-node.ts`), and the list of them.
 */
import { mayLink, rangeStart, sendBlob, sendModelFile } from '#service/http/file-answer.js'
import type { PluginHandlers, PluginService } from '#service/plugin.js'
import type { engineNodeEndpoints } from './endpoints.js'
import { createEngineNodeService } from './engine-nodes.js'
import type { StartedNodes } from './start.js'

const BYTES = { 'content-type': 'application/octet-stream' }

export function engineNodeHandlers({
  context,
  started: { nodes, rules },
}: PluginService<StartedNodes>): PluginHandlers<typeof engineNodeEndpoints> {
  const engineNodes = createEngineNodeService({ ...context, nodes }, rules)
  return {
    'POST /internal/engine/nodes': async ({ principal, body }) => engineNodes.report(principal, await body()),
    'GET /internal/engine/base-models/{base_model}': ({ params }) => engineNodes.baseModelFiles(params.base_model),
    'GET /internal/engine/base-models/{base_model}/files/{+file}': async ({ params, c }) =>
      sendModelFile(c, await engineNodes.openBaseModelFile(params.base_model, params.file, rangeStart(c))),
    'GET /internal/engine/adapters/{digest}': ({ principal, params }) =>
      engineNodes.adapterFiles(principal, params.digest),
    'GET /internal/engine/adapters/{digest}/{file}': async ({ principal, params, c }) =>
      sendBlob(
        c,
        await engineNodes.openAdapterFile(principal, params.digest, params.file, mayLink(c)),
        BYTES['content-type'],
      ),
    'GET /v1/preview/engine-nodes': ({ principal }) => ({ data: [...engineNodes.list(principal)] }),
  }
}
