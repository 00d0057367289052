/**
 * Stop strings across borders of text pieces: what is shown, held back and found.
 */
import { describe, expect, it } from 'vitest'
import { createRng } from '#base/util/rng.js'
import { createStopMatcher } from '#inference/host/stop-strings.js'

function run(
  stops: string[],
  pieces: string[],
  isIncluded = false,
): { text: string; stop: string | null; shown: string[] } {
  const matcher = createStopMatcher(stops, isIncluded)
  const shown: string[] = []
  for (const piece of pieces) {
    const { text, stop } = matcher.push(piece)
    shown.push(text)
    if (stop !== null) return { text: shown.join(''), stop, shown }
  }
  return { text: shown.join('') + matcher.flush(), stop: null, shown }
}

describe('stop strings', () => {
  it('pass text through when there are none', () => {
    expect(run([], ['a', 'b'])).toEqual({ text: 'ab', stop: null, shown: ['a', 'b'] })
  })

  it('cut before the match, also across pieces', () => {
    expect(run(['END'], ['xE', 'N', 'Dy'])).toEqual({ text: 'x', stop: 'END', shown: ['x', '', ''] })
  })

  it('keep the match when asked to, and hold nothing back', () => {
    expect(run(['END'], ['xE', 'N', 'Dy'], true)).toEqual({ text: 'xEND', stop: 'END', shown: ['xE', 'N', 'D'] })
  })

  it('show a held tail once it cannot become a match', () => {
    expect(run(['END'], ['aEN', 'Xb']).shown).toEqual(['a', 'ENXb'])
  })

  it('hold a repeated beginning correctly', () => {
    expect(run(['aab'], ['a', 'a', 'a', 'b']).text).toBe('a')
    expect(run(['aab'], ['aaa', 'c'])).toMatchObject({ text: 'aaac', stop: null })
  })

  it('show the held tail at the end', () => {
    expect(run(['END'], ['xEN']).text).toBe('xEN')
  })

  it('let the order of the list decide among several', () => {
    expect(run(['world', 'hello'], ['hello world']).stop).toBe('world')
  })

  it('pass text below min_tokens without looking', () => {
    const matcher = createStopMatcher(['ab'], false)
    expect(matcher.pass('ab')).toBe('ab')
    expect(matcher.push('xab')).toEqual({ text: 'x', stop: 'ab' })
  })

  it('agree with a search over the whole text for any cutting into pieces', () => {
    const rng = createRng('stops')
    for (let turn = 0; turn < 500; turn++) {
      const letters = (count: number): string => Array.from({ length: count }, () => 'ab'[rng.integer(2)]).join('')
      const stop = letters(1 + rng.integer(4))
      const text = letters(rng.integer(20))
      const pieces: string[] = []
      for (let at = 0; at < text.length; ) {
        const size = 1 + rng.integer(3)
        pieces.push(text.slice(at, at + size))
        at += size
      }
      const at = text.indexOf(stop)
      expect(run([stop], pieces).text, `${text} / ${stop} / ${pieces.join('|')}`).toBe(
        at < 0 ? text : text.slice(0, at),
      )
      const kept = run([stop], pieces, true).text
      expect(kept, `included: ${text} / ${stop}`).toBe(at < 0 ? text : text.slice(0, at + stop.length))
    }
  })
})
