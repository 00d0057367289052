/**
 * What a measurement is of: the same prompts, reward and sampling have the same name, so that the newest replaces those before
 * it and others are not averaged with it. How often each prompt is asked, and the seed, are no part of it.
 */
import { createHash } from 'node:crypto'
import type { JsonValue } from '#base/util/json.js'
import { isChoice, type Message, type TrajectoryGroup, toMessage } from '#sdk/rl/trajectory.js'

/** Characters of a name. */
const LENGTH = 32

/** @param of what it is of besides its prompts: the reward, temperature, limits */
export function nameMeasurement(prompts: readonly (readonly Message[])[], of: JsonValue): string {
  const asked = prompts.map((messages) => JSON.stringify(messages)).sort()
  return createHash('sha256')
    .update(JSON.stringify([asked, of]))
    .digest('hex')
    .slice(0, LENGTH)
}

/**
 * The same of groups that were gathered: what was said before the first answer, and how that was drawn. The reward is not known
 * here.
 */
export function nameGroups(groups: readonly TrajectoryGroup[]): string {
  const firsts = groups.flatMap(({ trajectories: [first] }) => first?.histories[0] ?? [])
  const prompts = firsts.map(({ items }) => {
    const at = items.findIndex(isChoice)
    return items.slice(0, at < 0 ? items.length : at).map(toMessage)
  })
  const drawn = firsts.map(({ items }) => items.find(isChoice)?.sampling?.temperature ?? 1)
  const ranges = groups.map(({ rewardRange }) => rewardRange?.join(' ') ?? '')
  return nameMeasurement(prompts, [[...new Set(drawn)].sort(), [...new Set(ranges)].sort()])
}
