/**
 * OpenAI's evals over HTTP.
 */
import { idempotencyKey } from '#service/http/headers.js'
import type { PluginHandlers, PluginService } from '#service/plugin.js'
import type { evalEndpoints } from './endpoints.js'
import { createEvalService, type RunWaker } from './evals.js'

export function evalHandlers({ context, started }: PluginService<RunWaker>): PluginHandlers<typeof evalEndpoints> {
  const evals = createEvalService(context, started)
  return {
    'POST /v1/evals': async ({ principal, body, c }) => evals.create(principal, await body(), idempotencyKey(c)),
    'GET /v1/evals': ({ principal, query }) => evals.list(principal, query()),
    'GET /v1/evals/{eval_id}': ({ principal, params }) => evals.get(principal, params.eval_id),
    'POST /v1/evals/{eval_id}': async ({ principal, params, body }) =>
      evals.update(principal, params.eval_id, await body()),
    'DELETE /v1/evals/{eval_id}': ({ principal, params }) => evals.delete(principal, params.eval_id),
    'POST /v1/evals/{eval_id}/runs': async ({ principal, params, body, c }) =>
      evals.createRun(principal, params.eval_id, await body(), idempotencyKey(c)),
    'GET /v1/evals/{eval_id}/runs': ({ principal, params, query }) =>
      evals.listRuns(principal, params.eval_id, query()),
    'GET /v1/evals/{eval_id}/runs/{eval_run_id}': ({ principal, params }) =>
      evals.getRun(principal, params.eval_id, params.eval_run_id),
    'POST /v1/evals/{eval_id}/runs/{eval_run_id}': ({ principal, params }) =>
      evals.cancelRun(principal, params.eval_id, params.eval_run_id),
    'DELETE /v1/evals/{eval_id}/runs/{eval_run_id}': ({ principal, params }) =>
      evals.deleteRun(principal, params.eval_id, params.eval_run_id),
    'GET /v1/evals/{eval_id}/runs/{eval_run_id}/output_items': ({ principal, params, query }) =>
      evals.listItems(principal, { evalId: params.eval_id, runId: params.eval_run_id }, query()),
    'GET /v1/evals/{eval_id}/runs/{eval_run_id}/output_items/{output_item_id}': ({ principal, params }) =>
      evals.getItem(principal, params.eval_id, params.eval_run_id, params.output_item_id),
  }
}
