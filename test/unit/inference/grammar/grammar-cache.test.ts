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
  const gone = cache.lease(specOf('gone'), () => false)
  const shared = [cache.lease(specOf('shared'), () => false), cache.lease(specOf('shared'))]
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
