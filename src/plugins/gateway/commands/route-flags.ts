/**
 * Flags that say what a route is.
 */
import { flag } from '#cli/command/flags.js'
import type { CreateRouteRequest } from '../wire.js'

export const routeFlags = {
  upstream: flag.required('--upstream <url>', 'what stands in place of /gateway/<name>/v1; without a path its /v1', {
    what: 'the address to pass calls on to',
    hint: 'for example https://api.openai.com/v1, or https://api.anthropic.com',
  }),
  keyVariable: flag.text('--key-variable <name>', 'variable of the server with the upstream’s key, which it allows'),
  sample: flag.number(0, 1)('--sample <share>', 'share of calls that are recorded; default 1'),
  noContent: flag.switch('--no-content', 'keep counts alone'),
  retentionDays: flag.number(0.01, 3650)('--retention-days <n>', 'how long calls are kept; default 30'),
  mask: flag.repeated((text) => text, '--mask <regex>', 'mask what it fits before anything is written; repeatable'),
}

export function toRouteRequest(
  name: string,
  flags: {
    readonly upstream: string
    readonly keyVariable: string | undefined
    readonly sample: number | undefined
    readonly noContent: boolean
    readonly retentionDays: number | undefined
    readonly mask: readonly string[]
  },
): CreateRouteRequest {
  const { upstream, keyVariable, sample, noContent, retentionDays, mask } = flags
  return {
    ...{ name, upstream, content: !noContent, mask_patterns: [...mask] },
    ...(keyVariable === undefined ? {} : { key_variable: keyVariable }),
    ...(sample === undefined ? {} : { sample }),
    ...(retentionDays === undefined ? {} : { retention_days: retentionDays }),
  }
}
