/**
 * Seeded random numbers: xoshiro128** seeded through splitmix32-style mixing. Same seed, same sequence, on every machine.
 *
 * Source: Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2018 (xoshiro128**).
 * Not for secrets.
 */
import { createHash, randomInt } from 'node:crypto'

/** A stream of random numbers. */
export interface Rng {
  /** Uniform in [0, 1) with 53 bits. */
  uniform(): number
  /** Standard normal (Box-Muller). */
  normal(): number
  /** Uniform integer in [0, bound). */
  integer(bound: number): number
}

/**
 * Creates a generator from any text or integer; the seed is hashed, so near seeds give unrelated streams.
 */
export function createRng(seed: string | number | bigint): Rng {
  const digest = createHash('sha256').update(String(seed)).digest()
  const state = new Uint32Array([
    digest.readUInt32LE(0),
    digest.readUInt32LE(4),
    digest.readUInt32LE(8),
    digest.readUInt32LE(12),
  ])
  let spare: number | null = null

  function next(): number {
    const s0 = state[0] as number
    const s1 = state[1] as number
    const s2 = state[2] as number
    const s3 = state[3] as number
    const result = Math.imul(rotateLeft(Math.imul(s1, 5), 7), 9) >>> 0
    const t = s1 << 9
    let a = s2 ^ s0
    const b = s3 ^ s1
    state[1] = s1 ^ a
    state[0] = s0 ^ b
    a ^= t
    state[2] = a
    state[3] = rotateLeft(b, 11)
    return result
  }

  const rng: Rng = {
    uniform: () => ((next() >>> 5) * 67108864 + (next() >>> 6)) / 9007199254740992,
    normal: () => {
      if (spare !== null) {
        const value = spare
        spare = null
        return value
      }
      const radius = Math.sqrt(-2 * Math.log(1 - rng.uniform()))
      const angle = 2 * Math.PI * rng.uniform()
      spare = radius * Math.sin(angle)
      return radius * Math.cos(angle)
    },
    integer: (bound) => Math.floor(rng.uniform() * bound),
  }
  return rng
}

/** A seed from the operating system, for callers that were given none. */
export function randomSeed(): number {
  return randomInt(2 ** 47)
}

function rotateLeft(x: number, bits: number): number {
  return (x << bits) | (x >>> (32 - bits))
}
