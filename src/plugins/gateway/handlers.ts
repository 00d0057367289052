/**
 * Handlers of routes, and of what stands below their addresses.
 */
import { Readable } from 'node:stream'
import { readEnvironment } from '#base/environment.js'
import { createRng, randomSeed } from '#base/util/rng.js'
import type { RequestContext } from '#service/http/environment.js'
import { sendFile } from '#service/http/file-answer.js'
import type { PluginHandlers, PluginService } from '#service/plugin.js'
import type { gatewayEndpoints } from './endpoints.js'
import { createGatewayService } from './gateway.js'
import type { Pass } from './pass.js'
import { createUpstreamRules, readKeyRules } from './rules.js'
import type { gatewaySettings } from './settings.js'
import type { GatewayStarted } from './start.js'

interface PassedCall {
  readonly c: RequestContext
  readonly params: { readonly gateway_route: string }
}

export function gatewayHandlers({
  context,
  app,
  started,
  settings,
}: PluginService<GatewayStarted, typeof gatewaySettings>): PluginHandlers<typeof gatewayEndpoints> {
  const rules = createUpstreamRules(settings.gatewayHosts, context.lookUp)
  const keyRules = readKeyRules(settings.gatewayKeys)
  const routes = createGatewayService(context, { rules, keyRules, settle: started.settle })

  let passing: Promise<Pass> | null = null

  async function open(): Promise<Pass> {
    const { createPass } = await import('./pass.js')
    const { createUpstream } = await import('./upstream.js')
    const upstream = createUpstream(rules)
    started.atEnd(upstream.close)
    const environment = readEnvironment()
    const keyOf = (variable: string, origin: string): string | null =>
      keyRules.get(variable) === origin ? environment[variable] || null : null
    const { uniform: draw } = createRng(randomSeed())
    return createPass(context, app, { upstream, recorder: await started.recorder(), draw, keyOf })
  }

  async function pass({ c, params }: PassedCall): Promise<Response> {
    passing ??= open()
    return (await passing)(c, params.gateway_route)
  }

  return {
    'POST /v1/preview/gateway-routes': async ({ principal, body }) => routes.create(principal, await body()),
    'GET /v1/preview/gateway-routes': ({ principal, query }) => routes.list(principal, query()),
    'GET /v1/preview/gateway-routes/{gateway_route}': ({ principal, params }) =>
      routes.summary(principal, params.gateway_route),
    'DELETE /v1/preview/gateway-routes/{gateway_route}': async ({ principal, params }) => ({
      id: await routes.delete(principal, params.gateway_route),
      object: 'gateway.route',
      deleted: true,
    }),
    'GET /v1/preview/gateway-routes/{gateway_route}/rows': async ({ principal, params, c }) => {
      const lines = await routes.rows(principal, params.gateway_route)
      return sendFile(c, Readable.from(toBytes(lines)), { 'content-type': 'application/jsonl' })
    },
    'POST /gateway/{gateway_route}/v1/{+path}': pass,
    'GET /gateway/{gateway_route}/v1/{+path}': pass,
    'DELETE /gateway/{gateway_route}/v1/{+path}': pass,
  }
}

async function* toBytes(lines: AsyncIterable<string>): AsyncGenerator<Uint8Array> {
  for await (const line of lines) yield Buffer.from(line)
}
