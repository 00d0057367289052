/**
 * Settings of glibc's memory allocator for a child process, as its environment variable `GLIBC_TUNABLES`, which glibc reads before
 * the process begins. Other C libraries ignore the variable. A tunable that the environment already sets is left as it is.
 */
import type { Environment } from '#base/environment.js'

const NAME = 'GLIBC_TUNABLES'

/**
 * Large pages, for a process that computes. A step reads all weights once, and where memory lies in pages of 4 kB the processor looks up
 * the place of every one of them. glibc asks for pages of 2 MB since 2.35. SmolLM2-135M, processor time of a step of 1, 8 and 16 rows: 0.86
 * to 0.93 of what it was; a training step of 4 x 256 tokens takes 0.95 of the time in float32, 0.93 as integers.
 */
export function withHugePages(environment: Environment): Environment {
  return withTunables(environment, { 'glibc.malloc.hugetlb': 1 })
}

/**
 * For a process that lives long and takes and leaves blocks of all sizes: what is freed goes back to the system instead of lying between
 * smaller blocks that live on. Blocks of 64 kB have pages of their own (a fixed threshold, or glibc raises it to 32 MB), and threads share
 * one arena. `src/docs/internals/performance.md` has what it saves.
 */
export function withMemoryGivenBack(environment: Environment): Environment {
  return withTunables(environment, { 'glibc.malloc.mmap_threshold': 65_536, 'glibc.malloc.arena_max': 1 })
}

function withTunables(environment: Environment, wanted: Readonly<Record<string, number>>): Environment {
  const given = environment[NAME] ?? ''
  const more = Object.entries(wanted).filter(([name]) => !given.includes(name))
  if (more.length === 0) return environment
  const joined = [...(given === '' ? [] : [given]), ...more.map(([name, value]) => `${name}=${value}`)].join(':')
  return { ...environment, [NAME]: joined }
}
