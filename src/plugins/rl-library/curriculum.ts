/**
 * Which prompts are worth asking: success rates by prompt are remembered, and prompts that are right now and then are asked more often.
 *
 * A prompt that is always or never right teaches nothing: the variance of right and wrong is p(1 - p), and its group's advantages are 0 at
 * both ends (arXiv:2502.12272, arXiv:2504.03380). So three in four of a draw are prompts between 0.1 and 0.9 as long as there are so many; the
 * others were not asked yet or, after those, are asked again, because the model changes.
 *
 * Knows rewards and names of prompts, no texts. Draws follow from the seed and the number of those before, so that a run that goes on from its
 * file draws as one that was never stopped.
 */
import { readFile } from 'node:fs/promises'
import { InvalidRequestError } from '#base/errors/errors.js'
import { isJsonObject, type JsonObject, type JsonValue } from '#base/util/json.js'
import { maxOf, minOf } from '#base/util/lists.js'
import { createRng, type Rng } from '#base/util/rng.js'
import { writeWhole } from '#base/write-whole.js'

/** Success rates between these are worth asking for. */
const [LEAST_RATE, GREATEST_RATE] = [0.1, 0.9]
/** Share of a draw that is kept for prompts between them. */
const PREFERRED_SHARE = 0.75
/** What older answers count beside newer ones, each time that a prompt is asked again: they are of an older model. */
const FADING = 0.5
/** Rewards of a prompt that lie closer together than this share of all rewards' range (its square root) are equal. */
const EQUAL_VARIANCE = 1e-9

export interface CurriculumOptions {
  /** JSON, read where it is there and written after each round; one process at a time. Default: only remembered while the program runs. */
  readonly file?: string
  /** Of a curriculum that begins; one that goes on has its own. Default 0. */
  readonly seed?: number
}

/** How many prompts are where; those with rates between 0.1 and 0.9 whose answers earned the same are counted by their rate, as below or above one half. */
export interface CurriculumCounts {
  readonly unasked: number
  readonly below: number
  readonly between: number
  readonly above: number
}

/** Rewards of one prompt's answers; newer ones count more. */
interface Memory {
  readonly answers: number
  readonly mean: number
  /** Mean of the squares. */
  readonly square: number
}

type Place = keyof CurriculumCounts

/**
 * Opens a curriculum: what its file remembers, or a new one.
 *
 * @throws {InvalidRequestError} `curriculum_invalid` for a file that is something else, which is left as it is
 * @example
 * const curriculum = await openCurriculum({ file: 'orders.curriculum.json' })
 * const plans = mails.map((mail) => group(8, () => rollout(mail), { key: mail.id }))
 * const groups = await gather(plans, { curriculum, pick: 16 })
 */
export async function openCurriculum({ file, seed = 0 }: CurriculumOptions = {}): Promise<Curriculum> {
  const curriculum = new Curriculum(seed, file)
  const text = file === undefined ? null : await readIfThere(file)
  if (text !== null) curriculum.restore(text)
  return curriculum
}

export class Curriculum {
  readonly #file: string | undefined
  #seed: number
  /** Draws that were recorded or made. */
  #draws = 0
  /** Least and greatest reward of any answer: success is where a reward lies between them. */
  #range: readonly [number, number] | null = null
  #memories = new Map<string, Memory>()

  constructor(seed: number, file: string | undefined) {
    this.#seed = seed
    this.#file = file
  }

  /**
   * Success rate of a prompt's remembered answers: their mean reward between the least (0) and the greatest (1) of all prompts; null of one
   * that was never asked, or while all rewards are the same.
   */
  rateOf(key: string): number | null {
    const memory = this.#memories.get(key)
    if (memory === undefined || this.#range === null) return null
    const [least, greatest] = this.#range
    return greatest > least ? (memory.mean - least) / (greatest - least) : null
  }

  /** How many of these prompts are where. */
  count(keys: readonly string[]): CurriculumCounts {
    const counts = { unasked: 0, below: 0, between: 0, above: 0 }
    for (const key of keys) counts[this.#placeOf(key)] += 1
    return counts
  }

  /**
   * Draws prompts to ask, each at most once.
   *
   * @returns places in `keys`, ascending; all of them where `count` is not smaller
   */
  draw(keys: readonly string[], count: number): readonly number[] {
    const rng = createRng(`curriculum ${this.#seed} ${this.#draws}`)
    this.#draws += 1
    const places = keys.map((key) => this.#placeOf(key))
    const at = (wanted: (place: Place) => boolean): number[] =>
      shuffled(
        places.flatMap((place, i) => (wanted(place) ? [i] : [])),
        rng,
      )
    const preferred = at((place) => place === 'between')
    const others = [...at((place) => place === 'unasked'), ...at((place) => place === 'below' || place === 'above')]
    const kept = preferred.slice(0, Math.ceil(count * PREFERRED_SHARE))
    const rest = [...others, ...preferred.slice(kept.length)]
    return [...kept, ...rest.slice(0, Math.max(0, count - kept.length))].toSorted((a, b) => a - b)
  }

  /** Remembers the rewards of a prompt's answers. */
  record(key: string, given: readonly number[]): void {
    const rewards = given.filter(Number.isFinite)
    if (rewards.length === 0) return
    const [least, greatest] = this.#range ?? [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]
    this.#range = [minOf(rewards, least), maxOf(rewards, greatest)]
    const old = this.#memories.get(key) ?? { answers: 0, mean: 0, square: 0 }
    const before = FADING * old.answers
    const answers = before + rewards.length
    const sum = rewards.reduce((total, reward) => total + reward, 0)
    const squares = rewards.reduce((total, reward) => total + reward * reward, 0)
    this.#memories.set(key, {
      answers,
      mean: (before * old.mean + sum) / answers,
      square: (before * old.square + squares) / answers,
    })
  }

  /** Writes the file, whole; nothing where there is none. `gather` does it after each round. */
  async save(): Promise<void> {
    if (this.#file !== undefined) await writeWhole(this.#file, `${JSON.stringify(this.toJSON())}\n`)
  }

  /** As the file holds it. */
  toJSON(): JsonObject {
    const rows = [...this.#memories].map(([key, { answers, mean, square }]) => [key, [answers, mean, square]] as const)
    return {
      object: 'curriculum',
      seed: this.#seed,
      draws: this.#draws,
      rewards: this.#range === null ? null : [...this.#range],
      // answers (older ones count less), mean reward, mean of squares
      prompts: Object.fromEntries(rows),
    }
  }

  /**
   * Goes on from what a file held.
   *
   * @throws {InvalidRequestError} `curriculum_invalid`
   */
  restore(text: string): void {
    const state = parse(text)
    if (state === null) {
      throw new InvalidRequestError('curriculum_invalid', `"${this.#file ?? 'the text'}" is no curriculum`, {
        hint: 'name another file: this one holds something else, and is left as it is',
      })
    }
    this.#seed = state.seed
    this.#draws = state.draws
    this.#range = state.range
    this.#memories = state.memories
  }

  #placeOf(key: string): Place {
    const memory = this.#memories.get(key)
    if (memory === undefined) return 'unasked'
    const rate = this.rateOf(key)
    const [least, greatest] = this.#range ?? [0, 0]
    // 0.4 for all answers is between nothing and all, and still nothing to compare
    const isSpread = memory.square - memory.mean ** 2 > EQUAL_VARIANCE * (greatest - least) ** 2
    if (rate !== null && isSpread && rate >= LEAST_RATE && rate <= GREATEST_RATE) return 'between'
    // rewards of one value say by that alone where they are: 1 is all by custom
    const isRight = rate === null ? least >= 1 : rate > 0.5
    return isRight ? 'above' : 'below'
  }
}

function shuffled(items: readonly number[], rng: Rng): number[] {
  return items
    .map((item) => ({ item, order: rng.uniform() }))
    .toSorted((a, b) => a.order - b.order)
    .map(({ item }) => item)
}

async function readIfThere(file: string): Promise<string | null> {
  return await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null
    throw new InvalidRequestError('curriculum_unreadable', `"${file}" cannot be read: ${error.message}`, {
      cause: error,
    })
  })
}

interface State {
  readonly seed: number
  readonly draws: number
  readonly range: readonly [number, number] | null
  readonly memories: Map<string, Memory>
}

function parse(text: string): State | null {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return null
  }
  if (!isJsonObject(value) || value['object'] !== 'curriculum') return null
  const { seed, draws, rewards, prompts } = value
  if (typeof seed !== 'number' || typeof draws !== 'number' || !isJsonObject(prompts)) return null
  const range = rewards === null ? [] : numbersOf(rewards, 2)
  if (range === null) return null
  const memories = new Map<string, Memory>()
  for (const [key, row] of Object.entries(prompts)) {
    const numbers = numbersOf(row, 3)
    if (numbers === null) return null
    const [answers = 0, mean = 0, square = 0] = numbers
    memories.set(key, { answers, mean, square })
  }
  const [least, greatest] = range
  return { seed, draws, memories, range: least === undefined || greatest === undefined ? null : [least, greatest] }
}

/** So many finite numbers, or null. */
function numbersOf(value: JsonValue | undefined, count: number): readonly number[] | null {
  if (!Array.isArray(value) || value.length !== count) return null
  return value.every((each) => typeof each === 'number' && Number.isFinite(each)) ? (value as number[]) : null
}
