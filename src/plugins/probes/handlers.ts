/**
 * Watched prompts (probes): each new checkpoint of a model answers them.
 */
import type { PluginHandlers, PluginService } from '#service/plugin.js'
import type { probeEndpoints } from './endpoints.js'
import type { ProbeRunner } from './probe-runner.js'
import { createProbeService } from './probes.js'

export function probeHandlers({
  context,
  started,
}: PluginService<Pick<ProbeRunner, 'wake' | 'forget'>>): PluginHandlers<typeof probeEndpoints> {
  const probes = createProbeService(context, started)
  const placeOf = (params: { readonly model_id: string; readonly probe_id: string }) => ({
    modelId: params.model_id,
    probeId: params.probe_id,
  })
  return {
    'POST /v1/preview/models/{model_id}/probes': async ({ principal, params, body }) =>
      probes.create(principal, params.model_id, await body()),
    'GET /v1/preview/models/{model_id}/probes': ({ principal, params, query }) =>
      probes.list(principal, params.model_id, query()),
    'DELETE /v1/preview/models/{model_id}/probes/{probe_id}': ({ principal, params }) =>
      probes.delete(principal, placeOf(params)),
    'GET /v1/preview/models/{model_id}/probes/{probe_id}/answers': ({ principal, params, query }) =>
      probes.answers(principal, placeOf(params), query()),
    'POST /v1/preview/models/{model_id}/probes/{probe_id}/answers': async ({ principal, params, body }) =>
      probes.ask(principal, placeOf(params), await body()),
  }
}
