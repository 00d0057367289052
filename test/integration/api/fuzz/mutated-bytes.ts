/**
 * Bytes that nearly are a message: requests of rows in protobuf as the client writes them, others that no client writes, and either with
 * damage.
 */
import { ProtobufWriter } from '#base/protobuf/protobuf-writer.js'
import { SUMMED_LOSSES } from '#formats/training-loop/loss-inputs.js'
import { type Datum, encodeLossCall, plainRows } from '../../../support/tinker/tinker-client.js'
import type { Chooser } from './chooser.js'

const LOSSES = [...Object.keys(SUMMED_LOSSES), 'nothing', '']
const INPUTS = ['target_tokens', 'weights', 'logprobs', 'advantages', 'sequence_ratio_mask', '__proto__']
const NUMBERS = [0, -0, 1, -1, 1e-45, 1e38, 1e308, Number.NaN, Number.POSITIVE_INFINITY]
/** Token ids: of the vocabulary, beside it, and at the ends of 32 bits. */
const IDS = [0, 1, 20, 255, 256, 5000, -1, 2 ** 31 - 1]
const HUGE = [2 ** 31, 2 ** 32, Number.MAX_SAFE_INTEGER]
const NO_BYTES = new Uint8Array(0)

/** Whose request it is, and its number. */
export interface Place {
  readonly run: string
  readonly seq: number
}

export function createByteMutator({ below, pick, chance }: Chooser) {
  const times = <T>(count: number, make: (i: number) => T): T[] => Array.from({ length: count }, (_, i) => make(i))
  const bytes = (count: number): Uint8Array => Uint8Array.from({ length: count }, () => below(256))
  const spliced = (whole: Uint8Array, at: number, removed: number, added: Uint8Array): Uint8Array =>
    Buffer.concat([whole.subarray(0, at), added, whole.subarray(at + removed)])

  const damages: readonly ((whole: Uint8Array) => Uint8Array)[] = [
    // cut off
    (whole) => whole.subarray(0, below(whole.length + 1)),
    // a bit
    (whole) => {
      const at = below(whole.length)
      return whole.length === 0 ? whole : Uint8Array.from(whole).with(at, (whole[at] as number) ^ (1 << below(8)))
    },
    // a length, or the first byte of one, that is another
    (whole) => spliced(whole, below(whole.length), 1, Uint8Array.of(pick([0, 1, 127, 128, 255]))),
    // a length of 2^63, and one without an end
    (whole) => spliced(whole, below(whole.length), 1, new Uint8Array(pick([9, 12])).fill(255)),
    // said twice
    (whole) => {
      const from = below(whole.length)
      return spliced(whole, from, 0, whole.subarray(from, from + below(200)))
    },
    // left out
    (whole) => spliced(whole, below(whole.length), 1 + below(20), NO_BYTES),
    // something else behind it
    (whole) => Buffer.concat([whole, bytes(below(40))]),
  ]

  function damaged(whole: Uint8Array): Uint8Array {
    return times(1 + below(3), () => pick(damages)).reduce((now, damage) => damage(now), whole)
  }

  /** Short rows that fit, now and then with numbers that do not. */
  function row(loss: string): Datum {
    const length = 2 + below(6)
    const [plain] = plainRows([times(length, () => (chance(0.97) ? 1 + below(200) : pick(IDS)))]) as [Datum]
    const values = () => times(length - 1, () => (chance(0.95) ? -below(100) / 50 : pick(NUMBERS)))
    const names = SUMMED_LOSSES[loss as keyof typeof SUMMED_LOSSES]?.inputs ?? ['weights']
    const inputs = Object.fromEntries(names.map((name) => [name, values()]))
    const other = chance(0.05) ? { [pick(INPUTS.slice(1))]: times(below(9), () => pick(NUMBERS)) } : {}
    return { tokens: plain.tokens, inputs: { target_tokens: plain.inputs['target_tokens'] ?? [], ...inputs, ...other } }
  }

  function fittingLoss({ run, seq }: Place): Uint8Array {
    const loss = pick(LOSSES)
    return encodeLossCall(run, seq, {
      loss,
      data: times(below(4), () => row(loss)),
      isForwardOnly: chance(0.3),
      config: chance(0.2) ? { [pick(['beta', 'clip_low_threshold', 'x', ''])]: pick(NUMBERS) } : {},
    })
  }

  const nested = (depth: number): ProtobufWriter => {
    let message = new ProtobufWriter().integer(1, 1)
    for (let left = depth; left > 0; left--) message = new ProtobufWriter().message(pick([1, 2, 3]), message)
    return message
  }
  const entry = (name: string, value: ProtobufWriter) => new ProtobufWriter().string(1, name).message(2, value)
  const tensor = (data: Uint8Array, type: number, shape: readonly number[]) =>
    new ProtobufWriter().bytes(1, data).integer(3, type).integers(4, shape)
  const datum = (...tensors: readonly ProtobufWriter[]) => {
    const message = new ProtobufWriter()
    message.message(1, new ProtobufWriter().message(1, new ProtobufWriter().bytes(1, new Uint8Array(16).fill(1))))
    for (const each of tensors) message.message(2, each)
    return message
  }

  /** What stands in a request behind its place that no client writes; few bytes that say much. */
  const oddities: readonly ((request: ProtobufWriter) => void)[] = [
    // more rows than may be, and nearly as many
    (request) => {
      for (let left = pick([32_760, 32_780]); left > 0; left--) request.bytes(3, NO_BYTES)
    },
    (request) => void request.message(3, nested(1 + below(300))),
    // fields that nobody knows, of any number
    (request) => {
      for (let left = below(5000); left > 0; left--) request.integer(pick([8, 100, 2 ** 28]), pick(HUGE))
    },
    // a shape of more elements than there is memory, of more dimensions than there are, and one that is not of its data
    (request) => {
      const shape = times(1 + below(70), () => pick([0, 1, 4, ...HUGE]))
      request.message(3, datum(entry('weights', tensor(new Uint8Array(4 * below(9)), pick([0, 1, 2, 3, 9]), shape))))
    },
    // lengths that are no whole numbers of elements
    (request) =>
      void request.message(3, datum(entry('target_tokens', tensor(bytes(below(40)), pick([1, 2, 3]), [below(9)])))),
    // one name again and again, and names without an end
    (request) => {
      const name = pick([pick(INPUTS), 'n'.repeat(600), '\u0000'])
      request.message(3, datum(...times(below(300), () => entry(name, tensor(new Uint8Array(4), 1, [1])))))
    },
    (request) => {
      for (let left = below(130); left > 0; left--) {
        const value = new ProtobufWriter().double(1, pick(NUMBERS))
        request.message(7, entry(chance(0.5) ? `setting-${left}` : pick(INPUTS), value))
      }
    },
    // another run, number or loss later on
    (request) =>
      void request
        .string(1, 'another')
        .integer(2, pick([0, ...HUGE]))
        .string(4, 'x'.repeat(below(900))),
    // integers where messages belong
    (request) => void request.integer(3, 1).integer(4, 1).integer(5, 1).integer(7, 1),
  ]

  function oddLoss({ run, seq }: Place): Uint8Array {
    const request = new ProtobufWriter().string(1, run).integer(2, seq)
    pick(oddities)(request)
    if (chance(0.8)) request.string(4, pick(LOSSES))
    return request.finish()
  }

  return {
    damaged,
    bytes,
    /** A request of rows at that place. */
    loss(place: Place): Uint8Array {
      const whole = chance(0.7) ? fittingLoss(place) : oddLoss(place)
      return chance(0.5) ? whole : damaged(whole)
    },
  }
}
