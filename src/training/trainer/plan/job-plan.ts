/**
 * What a job would do, known before it starts: the steps and rows it makes, what trains, what is left out, how much work it is.
 *
 * Each kind of job makes its plan from the code that the job itself runs (`src/training/kinds/rl/rl-outline.ts` and its
 * like), so that a plan cannot tell another story than the job's report.
 */
import type { GroupLeftOut } from '#formats/rows/which-train.js'
import type { TrainingEvent, TrainingPrecision } from '../job.js'
import type { MemoryNeeds } from '../memory.js'
import { type Row, sequenceRow } from '../row-batch.js'

/** How many groups and sequences a plan shows; the others are counted. */
export const SHOWN_GROUPS = 200
export const SHOWN_SEQUENCES = 20
/** Runs of trained and untrained tokens that are shown of one sequence, and characters of each. */
const SHOWN_SPANS = 64
const SHOWN_CHARACTERS = 300

/** Some tokens in a row that all train, or all do not. */
export interface PlannedSpan {
  readonly isTrained: boolean
  readonly tokenCount: number
  /** What they spell; the middle of a long text is left out. */
  readonly text: string
}

/** A sequence with its answer mask. */
export interface PlannedSequence {
  /** For example `trajectory_groups[0].trajectories[2]` or `line 3`. */
  readonly source: string
  readonly tokenCount: number
  readonly trainedTokenCount: number
  /** What multiplies the loss of its tokens, after the scaling of the whole call; null where there are no rewards. */
  readonly advantage: number | null
  readonly weight: number | null
  readonly spans: readonly PlannedSpan[]
  readonly omittedSpanCount: number
}

/** A group and what its rewards make of its trajectories. */
export interface PlannedGroup {
  readonly index: number
  readonly meanReward: number
  readonly rewardDeviation: number
  /** One per trajectory, inside the group; 0 does not train. */
  readonly advantages: readonly number[]
  /** Why nothing of it trains; null when something may. */
  readonly leftOut: GroupLeftOut | null
}

/** Work in tokens, a token of a long row counting more (`rowCost`). */
export interface PlannedWork {
  readonly gradient: number
  /** Forward passes before the first step, and those on validation rows. */
  readonly forward: number
  /** Sessions that are built. */
  readonly sessionCount: number
}

/** A plan; its left-out data and sentences stand in the report of the job's progress. */
export interface JobPlan extends MemoryNeeds {
  readonly started: TrainingEvent
  /** Rows that go through the train graph, epochs counted. */
  readonly rowCount: number
  /** As the report counts them when the job has ended. */
  readonly tokens: number
  readonly trainedTokens: number
  readonly work: PlannedWork
  readonly groups: readonly PlannedGroup[]
  readonly groupCount: number
  readonly sequences: readonly PlannedSequence[]
  readonly sequenceCount: number
  /** Rows of the data to measure the machine with; none where nothing trains. */
  readonly sample: readonly Row[]
  readonly precision: TrainingPrecision
}

/** A sequence as tokens and mask. */
interface MaskedTokens {
  readonly tokenIds: Int32Array
  readonly lossMask: Uint8Array
}

/** Shows which tokens of a sequence train. @param textOf the text that ids spell */
export function describeMask(
  { tokenIds, lossMask }: MaskedTokens,
  textOf: (ids: readonly number[]) => string,
): Pick<PlannedSequence, 'tokenCount' | 'trainedTokenCount' | 'spans' | 'omittedSpanCount'> {
  const spans: PlannedSpan[] = []
  let spanCount = 0
  for (let start = 0; start < tokenIds.length; ) {
    let end = start + 1
    while (end < tokenIds.length && lossMask[end] === lossMask[start]) end += 1
    spanCount += 1
    if (spans.length < SHOWN_SPANS) {
      const text = shortened(textOf(Array.from(tokenIds.subarray(start, end))))
      spans.push({ isTrained: lossMask[start] === 1, tokenCount: end - start, text })
    }
    start = end
  }
  return {
    tokenCount: tokenIds.length,
    trainedTokenCount: lossMask.reduce((ones, bit) => ones + bit, 0),
    spans,
    omittedSpanCount: spanCount - spans.length,
  }
}

function shortened(text: string): string {
  if (text.length <= SHOWN_CHARACTERS) return text
  const half = SHOWN_CHARACTERS / 2
  return `${text.slice(0, half)} … ${text.slice(-half)}`
}

/** Longest row and most tokens of a measurement: it must not need the memory of the job. */
const SAMPLE_LENGTH = 256
const SAMPLE_ROWS = 4

/** The start of the longest sequences as rows in which something trains. */
export function sampleRows(sequences: readonly MaskedTokens[]): Row[] {
  return [...sequences]
    .sort((a, b) => b.tokenIds.length - a.tokenIds.length)
    .slice(0, SAMPLE_ROWS)
    .map(({ tokenIds, lossMask }) => {
      const mask = Uint8Array.from(lossMask.subarray(0, SAMPLE_LENGTH))
      // a long prompt would leave nothing to train on: the time does not depend on which token it is
      if (!mask.includes(1)) mask[mask.length - 1] = 1
      return sequenceRow(tokenIds.slice(0, SAMPLE_LENGTH), mask)
    })
    .filter(({ tokens }) => tokens.length > 1)
}
