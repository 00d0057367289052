/**
 * Which compiled grammars are kept, and who waits: the threads are replaced by what the cache sees of them.
 */
import { expect, test } from 'vitest'
import { createDeferred } from '#base/util/deferred.js'
import type { Grammar } from '#inference/grammar/grammar.js'
import { createGrammarCache, type GrammarCache } from '#inference/grammar/grammar-cache.js'
import type { GrammarSpec } from '#inference/grammar/grammar-spec.js'
import { expectCode } from '../../../support/expect-code.js'
import { until } from '../../../support/until.js'

const MIB = 2 ** 20

function specOf(text: string): GrammarSpec {
  return { kind: 'choice', choices: [text] }
}

/** What was compiled and ended, by name; each holds 10 MiB. */
function recorded() {
  const log: string[] = []
  const compile = async (spec: GrammarSpec): Promise<Grammar> => {
    const name = spec.kind === 'choice' ? (spec.choices[0] ?? '') : ''
    log.push(`compile ${name}`)
    return {
      unheld: [],
      openCount: 0,
      isDead: false,
      bytes: 10 * MIB,
      open: () => {
        throw new Error('no mask is asked for')
      },
      dispose: async () => {
        log.push(`end ${name}`)
      },
    }
  }
  return { log, compile }
}

async function use(cache: GrammarCache, name: string): Promise<void> {
  const lease = await cache.lease(specOf(name))
  lease.release()
}

test('idle grammars that hold too much together are ended, the oldest first', async () => {
  const { log, compile } = recorded()
  const cache = createGrammarCache({ compile, maxGrammars: 8, maxIdleBytes: 25 * MIB })
  const held = await cache.lease(specOf('held'))
  for (const name of ['a', 'b', 'a', 'c']) await use(cache, name)
  await until(() => log.includes('end b'), 'the end of b')
  expect(log).toEqual(['compile held', 'compile a', 'compile b', 'compile c', 'end b'])
  // one that is used does not count, once it rests it does
  held.release()
  await until(() => log.includes('end a'), 'the end of a')
  expect(log).toHaveLength(6)
  await cache.dispose()
})

test('one that is too large to be kept is ended as soon as nobody uses it', async () => {
  const { log, compile } = recorded()
  const cache = createGrammarCache({ compile, maxGrammars: 8, maxIdleBytes: 5 * MIB })
  const [first, second] = await Promise.all([cache.lease(specOf('a')), cache.lease(specOf('a'))])
  first.release()
  expect(log).toEqual(['compile a'])
  second.release()
  await until(() => log.includes('end a'), 'the end of a')
  await cache.dispose()
})

test('what nobody uses for some time is given back', async () => {
  const { log, compile } = recorded()
  const cache = createGrammarCache({ compile, maxGrammars: 8, idleMs: 20 })
  const lease = await cache.lease(specOf('used'))
  await use(cache, 'idle')
  await until(() => log.includes('end idle'), 'the end of idle')
  expect(log).not.toContain('end used')
  lease.release()
  await until(() => log.includes('end used'), 'the end of used')
  await cache.dispose()
})

test('two compile at once, and a request that has gone meanwhile is not compiled for', async () => {
  const { log, compile } = recorded()
  const gate = createDeferred<void>()
  const cache = createGrammarCache({
    compile: async (spec) => {
      const grammar = await compile(spec)
      await gate.promise
      return grammar
    },
    maxGrammars: 8,
  })
  const running = [cache.lease(specOf('a')), cache.lease(specOf('b'))]
  const gone = cache.lease(specOf('gone'), { isWanted: () => false })
  const shared = [cache.lease(specOf('shared'), { isWanted: () => false }), cache.lease(specOf('shared'))]
  expect(log).toEqual(['compile a', 'compile b'])
  gate.resolve()
  await expectCode(() => gone, 'cancelled')
  await Promise.all([...running, ...shared])
  expect(log).toEqual(['compile a', 'compile b', 'compile shared'])
  // its place is free again
  await use(cache, 'gone')
  expect(log).toContain('compile gone')
  await cache.dispose()
})

test('where all places are in use, new grammars wait as they came', async () => {
  const { log, compile } = recorded()
  const cache = createGrammarCache({ compile, maxGrammars: 2 })
  const [a, b] = await Promise.all(['a', 'b'].map((name) => cache.lease(specOf(name))))
  const got: string[] = []
  const names = ['c', 'd', 'gone', 'e', 'c']
  const waiting = names.map(async (name) => {
    const lease = await cache.lease(specOf(name), { isWanted: () => name !== 'gone' })
    got.push(name)
    return lease
  })
  const gone = expectCode(() => waiting[2], 'cancelled')
  a?.release()
  await until(() => got.length > 0, 'the first place')
  expect(got).toEqual(['c'])
  b?.release()
  await until(() => got.length > 1, 'the second place')
  expect(got).toEqual(['c', 'd'])
  ;(await waiting[0])?.release()
  await gone
  await until(() => got.length > 2, 'the third place')
  expect(got).toEqual(['c', 'd', 'e'])
  ;(await waiting[1])?.release()
  // the last one could not join the first, whose place was waited for
  await until(() => got.length > 3, 'the last place')
  expect(log.filter((line) => line.startsWith('compile'))).toEqual(
    ['a', 'b', 'c', 'd', 'e', 'c'].map((name) => `compile ${name}`),
  )
  await cache.dispose()
})

test('a grammar that is always in use does not keep others out', async () => {
  const { compile } = recorded()
  const cache = createGrammarCache({ compile, maxGrammars: 1 })
  let busy = await cache.lease(specOf('busy'))
  let isOther = false
  const other = cache.lease(specOf('other')).then((lease) => {
    isOther = true
    lease.release()
  })
  // the next user comes before the last one goes
  const next = cache.lease(specOf('busy'))
  busy.release()
  busy = await next
  expect(isOther).toBe(true)
  await other
  busy.release()
  await cache.dispose()
})

test('who waits when the model is closed is told', async () => {
  const { compile } = recorded()
  const cache = createGrammarCache({ compile, maxGrammars: 1 })
  await cache.lease(specOf('a'))
  const waiting = expectCode(() => cache.lease(specOf('b')), 'cancelled')
  await cache.dispose()
  await waiting
})

/** Compiles one grammar after the other as it is told to. */
function compiledByHand() {
  const begun: string[] = []
  const ends = new Map<string, () => void>()
  const { compile } = recorded()
  const slowly = async (spec: GrammarSpec): Promise<Grammar> => {
    const name = spec.kind === 'choice' ? (spec.choices[0] ?? '') : ''
    begun.push(name)
    await new Promise<void>((resolve) => ends.set(name, resolve))
    return compile(spec)
  }
  return { begun, compile: slowly, end: (name: string): void => ends.get(name)?.() }
}

test('another key compiles at once beside thirty grammars of one, and a third one after the next of them', async () => {
  const { begun, compile, end } = compiledByHand()
  const cache = createGrammarCache({ compile, maxGrammars: 8 })
  const names = Array.from({ length: 30 }, (_, i) => `many ${i}`)
  const many = names.map((name) => cache.lease(specOf(name), { keyId: 'many' }))
  await until(() => begun.length === 2, 'two that compile')
  const other = cache.lease(specOf('other'), { keyId: 'other' })
  const third = cache.lease(specOf('third'), { keyId: 'third' })
  await until(() => begun.length === 3, 'one of another key')
  expect(begun[2]).toBe('other')
  end(begun[0] ?? '')
  await until(() => begun.length === 4, 'one of a third key')
  expect(begun[3]).toBe('third')
  end('other')
  ;(await other).release()
  end('third')
  ;(await third).release()
  for (const [i, one] of many.entries()) {
    await until(() => begun.includes(`many ${i}`), `the turn of number ${i}`)
    end(`many ${i}`)
    ;(await one).release()
  }
  await cache.dispose()
})

test('a key whose grammars are all in use leaves places to others, whose grammars stay', async () => {
  const { log, compile } = recorded()
  const cache = createGrammarCache({ compile, maxGrammars: 4 })
  const held = await Promise.all(['a', 'b', 'c'].map((name) => cache.lease(specOf(name), { keyId: 'many' })))
  const waiting = cache.lease(specOf('d'), { keyId: 'many' })
  const other = await cache.lease(specOf('other'), { keyId: 'other' })
  expect(log).toEqual(['compile a', 'compile b', 'compile c', 'compile other'])
  // joined, not compiled again
  const again = await cache.lease(specOf('other'), { keyId: 'other' })
  for (const lease of [other, again, ...held]) lease.release()
  ;(await waiting).release()
  expect(log.filter((line) => line.startsWith('compile'))).toHaveLength(5)
  await cache.dispose()
})

test('too many grammars of one key are refused to that key alone', async () => {
  const { compile, end } = compiledByHand()
  const cache = createGrammarCache({ compile, maxGrammars: 4 })
  const lease = (keyId: string, i: number) => cache.lease(specOf(`${keyId} ${i}`), { keyId })
  const many = Array.from({ length: 3 + 128 }, (_, i) => lease('many', i))
  for (const one of many) one.catch(() => undefined)
  await expect(lease('many', 131)).rejects.toMatchObject({
    code: 'queue_full',
    category: 'rate_limited',
    message: '128 grammars of this key wait already',
    details: { retry_after_seconds: 30 },
  })
  const other = lease('other', 0)
  await new Promise(setImmediate)
  end('other 0')
  ;(await other).release()
  const disposed = cache.dispose()
  for (const i of [0, 1, 2]) {
    await new Promise(setImmediate)
    end(`many ${i}`)
  }
  await disposed
})
