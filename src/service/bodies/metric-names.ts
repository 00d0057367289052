/**
 * The names of the metrics of one body of trajectory groups: a job's checkpoint has them all, so there is a most of them
 * (`METRICS_OF_CLIENTS`). Trajectories and groups have names apart, since those of groups get a prefix.
 */
import { METRICS_OF_CLIENTS } from '#contract/wire/maxima.js'
import type { GroupsRead } from './thread-protocol.js'

export interface MetricNames {
  /** @param path of the metrics */
  add(metrics: Readonly<Record<string, number>>, of: 'group' | 'trajectory', path: string): void
  /** The first that is beyond a maximum. */
  problem(): GroupsRead['unfitMetrics']
}

export function createMetricNames(): MetricNames {
  const { names: most, nameLength } = METRICS_OF_CLIENTS
  const names = { group: new Set<string>(), trajectory: new Set<string>() }
  let problem: GroupsRead['unfitMetrics'] = null

  return {
    add: (metrics, of, path) => {
      for (const name of Object.keys(metrics)) {
        if (problem !== null) return
        names[of].add(name)
        const count = names.group.size + names.trajectory.size
        if (name.length > nameLength) {
          const shown = JSON.stringify(`${name.slice(0, 40)}…`)
          problem = {
            path,
            problem: `has the name ${shown} of ${name.length} characters, expected at most ${nameLength}`,
          }
        } else if (count > most) {
          const shown = JSON.stringify(name.slice(0, 40))
          problem = {
            path,
            problem: `brings with ${shown} the names of metrics to ${count}, expected at most ${most} in all groups of a job`,
          }
        }
      }
    },
    problem: () => problem,
  }
}
