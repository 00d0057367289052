/**
 * What every `ModelRunner` has to do, whoever computes: keys and values that say the same wherever they lie, and rows with the same bits
 * whatever else is computed with them.
 *
 * A second implementation calls this with a factory of its own. What the numbers themselves have to be is held by `step-model.test.ts`
 * and `engine.test.ts`.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { KvSequence, LoadedAdapter, ModelRunner, Slot } from '#inference/engine/model-runner.js'
import type { PreparedModel } from '#model/architectures/prepare.js'
import { prepareTiny, promptOf, randomAdapter } from '../engine-harness.js'

/** Largest difference of a log-probability that was computed in pieces of another size. */
const TOLERANCE = 1e-4

/** @param load of a prepared base model */
export function modelRunnerConformance(name: string, load: (prepared: PreparedModel) => Promise<ModelRunner>): void {
  describe(`${name} is a model runner`, () => {
    let prepared: PreparedModel
    let remove: () => Promise<void>
    let runner: ModelRunner
    beforeAll(async () => {
      ;({ prepared, remove } = await prepareTiny())
      runner = await load(prepared)
    })
    afterAll(async () => {
      await runner.release()
      await remove()
    })

    /** A prompt computed in chunks. @returns its sequence, and log-probabilities behind its last token */
    async function computed(
      ids: readonly number[],
      { chunk = ids.length, adapter = null }: { readonly chunk?: number; readonly adapter?: LoadedAdapter | null } = {},
    ): Promise<{ readonly sequence: KvSequence; readonly logprobs: readonly number[] }> {
      const sequence = runner.createSequence(ids.length)
      let logprobs: readonly number[] = []
      for (let at = 0; at < ids.length; at += chunk) {
        const part = ids.slice(at, at + chunk)
        const isLast = at + chunk >= ids.length
        const rows = await runner.prefill([{ sequence, ids: part, adapter, rows: isLast ? 'last' : 'none' }])
        if (isLast) logprobs = Array.from(rows.row(0, part.length - 1).logprobs ?? [])
        rows.keep(0, part.length)
      }
      return { sequence, logprobs }
    }

    const slotOf = (prompt: KvSequence, tail: KvSequence | null = null, siblings = 1): Slot =>
      runner.allocate(prompt, { tail, siblings, choices: siblings })

    /** One step of the batch that a slot is in: `next` for each of its slots. @returns log-probabilities behind each new token */
    async function decoded(
      slot: Slot,
      next: (slot: Slot) => {
        readonly ids: readonly number[]
        readonly kept?: number
        readonly adapter?: LoadedAdapter
      },
    ): Promise<ReadonlyMap<Slot, readonly (readonly number[])[]>> {
      const slots = runner.batches.find((batch) => batch.slots.includes(slot))?.slots ?? []
      const parts = slots.map((each) => ({ slot: each, adapter: null, inverseTemperature: 1, ...next(each) }))
      const rows = await runner.decode(parts, ['logprobs'])
      const found = parts.map(
        ({ slot: each, ids }, part) =>
          [each, ids.map((_, token) => Array.from(rows.row(part, token).logprobs ?? []))] as const,
      )
      for (const [part, { ids, kept }] of parts.entries()) rows.keep(part, kept ?? ids.length)
      return new Map(found)
    }

    const rowsOf = async (slot: Slot, ids: readonly number[], kept?: number): Promise<readonly (readonly number[])[]> =>
      (await decoded(slot, () => ({ ids, ...(kept === undefined ? {} : { kept }) }))).get(slot) ?? []

    it('says how much it takes, and may limit a step but not stop it', () => {
      expect(runner.vocabularySize).toBe(prepared.config.vocabularySize)
      expect(runner.bytesPerToken).toBeGreaterThan(0)
      expect(runner.mostPrefillTokens).toBeGreaterThan(0)
      expect(runner.cheapDecodeTokens).toBeGreaterThan(0)
      const limit = runner.prefillLimit(100, 64)
      expect(limit).toBeGreaterThan(0)
      expect(limit).toBeLessThanOrEqual(64)
    })

    it('computes a prompt in pieces as at once, and several beside each other as alone', async () => {
      const prompts = [promptOf(24, 1), promptOf(20, 2)] as const
      const alone = [await computed(prompts[0]), await computed(prompts[1])]
      const pieces = await computed(prompts[0], { chunk: 7 })
      expect(pieces.sequence.length).toBe(24)
      expect(worst(pieces.logprobs, alone[0]?.logprobs ?? [])).toBeLessThan(TOLERANCE)
      const sequences = prompts.map(({ length }) => runner.createSequence(length))
      const parts = prompts.map((ids, i) => ({
        sequence: sequences[i] as KvSequence,
        ids,
        adapter: null,
        rows: 'last' as const,
      }))
      const rows = await runner.prefill(parts)
      for (const [i, ids] of prompts.entries()) {
        const together = Array.from(rows.row(i, ids.length - 1).logprobs ?? [])
        expect(worst(together, alone[i]?.logprobs ?? [])).toBeLessThan(TOLERANCE)
      }
    })

    it('has a row for every token that asks for one', async () => {
      const ids = promptOf(12, 3)
      const rows = await runner.prefill([
        { sequence: runner.createSequence(ids.length), ids, adapter: null, rows: 'all' },
      ])
      for (const token of [0, 5, 11]) {
        const { logprobs } = await computed(ids.slice(0, token + 1))
        expect(worst(Array.from(rows.row(0, token).logprobs ?? []), logprobs)).toBeLessThan(TOLERANCE)
      }
    })

    it('goes on from what was copied, and forgets what is not kept', async () => {
      const ids = promptOf(33, 4)
      const { sequence, logprobs } = await computed(ids)
      const copy = runner.createSequence(ids.length)
      copy.copyFrom(sequence, 0, 16)
      const thrown = await runner.prefill([{ sequence: copy, ids: [1, 2, 3], adapter: null, rows: 'none' }])
      thrown.keep(0, 0)
      expect(copy.length).toBe(16)
      const rows = await runner.prefill([{ sequence: copy, ids: ids.slice(16), adapter: null, rows: 'last' }])
      expect(worst(Array.from(rows.row(0, 16).logprobs ?? []), logprobs)).toBeLessThan(TOLERANCE)
      expect(copy.sizeBytes).toBeGreaterThan(0)
    })

    it('decodes behind a prompt what the prompt would be if it were longer; wrong guesses leave nothing', async () => {
      const ids = promptOf(22, 5)
      const { sequence } = await computed(ids)
      const slot = slotOf(sequence)
      await rowsOf(slot, [7, 99, 98], 1)
      const [, behind] = await rowsOf(slot, [8, 9])
      expect(worst(behind ?? [], (await computed([...ids, 7, 8, 9])).logprobs)).toBeLessThan(TOLERANCE)
      runner.free(slot)
    })

    it('gives a choice the same bits alone and beside others, of its prompt and of another', async () => {
      const [own, other] = [await computed(promptOf(22, 6)), await computed(promptOf(30, 7))]
      const alone = slotOf(own.sequence)
      const expected = [await rowsOf(alone, [3]), await rowsOf(alone, [4])]
      runner.free(alone)
      const slots = [slotOf(own.sequence, null, 2), slotOf(own.sequence, null, 1), slotOf(other.sequence)]
      const [watched = alone] = slots
      for (const [step, id] of [3, 4].entries()) {
        const found = (await decoded(watched, (slot) => ({ ids: [slot === watched ? id : 50 + step] }))).get(watched)
        expect(found).toEqual(expected[step])
      }
      for (const slot of slots) runner.free(slot)
    })

    it('goes on in another slot where a fork was taken', async () => {
      const ids = promptOf(22, 8)
      const { sequence } = await computed(ids)
      const slot = slotOf(sequence)
      for (const id of [3, 4, 5]) await rowsOf(slot, [id])
      const tail = runner.fork(slot)
      const kept = runner.fork(slot, 6)
      expect([tail.length, kept.length]).toEqual([3, 9])
      const expected = await rowsOf(slot, [6])
      runner.free(slot)
      const again = slotOf(sequence, tail)
      expect(await rowsOf(again, [6])).toEqual(expected)
      runner.free(again)
      // the same tokens as a prompt of its own, for later requests
      const later = runner.createSequence(26)
      later.copyFrom(sequence, 0, 16)
      later.copyFrom(kept, 0, 9)
      const rows = await runner.prefill([{ sequence: later, ids: [6], adapter: null, rows: 'last' }])
      expect(worst(Array.from(rows.row(0, 0).logprobs ?? []), expected[0] ?? [])).toBeLessThan(TOLERANCE)
    })

    it('keeps what choices have when others leave and what is left moves together', async () => {
      const ids = promptOf(80, 9)
      const { sequence } = await computed(ids)
      const slots = Array.from({ length: 8 }, () => slotOf(sequence, null, 8))
      const [first, ...others] = slots as [Slot, ...Slot[]]
      await decoded(first, (slot) => ({ ids: [10 + slots.indexOf(slot)] }))
      for (const slot of others) runner.free(slot)
      runner.compact(() => false)
      expect(runner.batches.flatMap((batch) => batch.slots)).toEqual([first])
      const [behind] = await rowsOf(first, [77])
      expect(worst(behind ?? [], (await computed([...ids, 10, 77])).logprobs)).toBeLessThan(TOLERANCE)
      runner.free(first)
    })

    it('has slots in batches while they are taken, and gives all memory back', async () => {
      const { sequence } = await computed(promptOf(20, 10))
      expect([runner.batches.length, runner.slotBytes]).toEqual([0, 0])
      const slots = Array.from({ length: 5 }, () => slotOf(sequence, null, 5))
      expect(new Set(runner.batches.flatMap((batch) => batch.slots))).toEqual(new Set(slots))
      await decoded(slots[0] as Slot, () => ({ ids: [1] }))
      expect(runner.slotBytes).toBeGreaterThan(0)
      for (const slot of slots) runner.free(slot)
      runner.trim()
      expect([runner.batches.length, runner.slotBytes]).toEqual([0, 0])
    })

    it('computes under adapters of a step each, and keeps one that is in use when it is forgotten', async () => {
      const ids = promptOf(20, 11)
      const source = randomAdapter(prepared, 5, 4)
      const adapter = await runner.loadAdapter(source)
      expect(await runner.loadAdapter(source)).toBe(adapter)
      const [plain, adapted] = [await computed(ids), await computed(ids, { adapter })]
      expect(worst(plain.logprobs, adapted.logprobs)).toBeGreaterThan(TOLERANCE)
      runner.forgetAdapters(source.digest)
      expect((await computed(ids, { adapter })).logprobs).toEqual(adapted.logprobs)
      expect(await runner.loadAdapter(source)).not.toBe(adapter)
      const [base, own] = [slotOf(plain.sequence), slotOf(adapted.sequence)]
      // nothing is kept, so that the second look finds what the first one found
      const behind = async (slot: Slot): Promise<readonly number[]> => {
        const rows = await decoded(slot, (each) => ({ ids: [5], kept: 0, ...(each === own ? { adapter } : {}) }))
        return rows.get(slot)?.[0] ?? []
      }
      expect(worst(await behind(base), (await computed([...ids, 5])).logprobs)).toBeLessThan(TOLERANCE)
      expect(worst(await behind(own), (await computed([...ids, 5], { adapter })).logprobs)).toBeLessThan(TOLERANCE)
      runner.free(base)
      runner.free(own)
      runner.forgetAdapters()
    })

    it('erases what a slot had when nothing of a step is kept', async () => {
      const { sequence } = await computed(promptOf(22, 12))
      const slot = slotOf(sequence)
      const first = await rowsOf(slot, [3])
      await rowsOf(slot, [4], 0)
      expect(runner.fork(slot).length).toBe(0)
      expect(await rowsOf(slot, [3])).toEqual(first)
      runner.free(slot)
    })

    it('refuses a sequence that no runner of its kind has made', () => {
      const foreign = { length: 0, sizeBytes: 0, copyFrom: () => undefined }
      expect(() => runner.allocate(foreign, { tail: null, siblings: 1, choices: 1 })).toThrow('another runner')
    })
  })
}

function worst(a: readonly number[], b: readonly number[]): number {
  if (a.length !== b.length || a.length === 0) return Number.POSITIVE_INFINITY
  return a.reduce((max, value, i) => Math.max(max, Math.abs(value - (b[i] ?? Number.NaN))), 0)
}
