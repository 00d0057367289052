/**
 * Numbers of lines as a row holds them, `1-16,18`, and as they are looked up: one bit each.
 */

/** Ranges of the numbers, which come in any order and once each. */
export function formatLines(numbers: readonly number[]): string {
  const ranges: [number, number][] = []
  for (const number of [...numbers].sort((a, b) => a - b)) {
    const last = ranges.at(-1)
    if (last !== undefined && number === last[1] + 1) last[1] = number
    else ranges.push([number, number])
  }
  return ranges.map(([first, last]) => (first === last ? String(first) : `${first}-${last}`)).join(',')
}

interface LineSet {
  has(number: number): boolean
}

/** All numbers of some such texts. */
export function readLineSet(texts: Iterable<string>): LineSet {
  let bits = new Uint8Array(1024)
  for (const text of texts) {
    for (const range of text.split(',').filter((each) => each !== '')) {
      const [first = 0, last = first] = range.split('-').map(Number)
      if (last >= bits.length * 8) {
        const wider = new Uint8Array(Math.max(2 * bits.length, (last >> 3) + 1))
        wider.set(bits)
        bits = wider
      }
      for (let n = first; n <= last; n++) bits[n >> 3] = (bits[n >> 3] ?? 0) | (1 << (n & 7))
    }
  }
  return { has: (n) => ((bits[n >> 3] ?? 0) & (1 << (n & 7))) !== 0 }
}
