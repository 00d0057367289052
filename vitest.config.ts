/**
 * Which test runs when, and how.
 *
 * A *tier* is when: `quick` (`npm test`, minutes), `all` (`npm run test:all`, the rest of what each change is held to), `nightly`
 * (`npm run test:nightly`, what is long or heavy). `vitest run --mode TIER` runs one; without a mode every file runs, so that any can be named.
 * A *project* is how, by what a test needs: unit (nothing), api (the service), integration (disk, ONNX Runtime), e2e (the binary, a port),
 * kills (processes that are killed), alone (any of these, and no other test beside it), ui (a browser). `test/architecture/tiers.test.ts` finds a file that is in two, or in none.
 *
 * Tests run the TypeScript sources; `#layer/file.js` is mapped to `src/`. Child processes run the build in `dist/`,
 * which is why `npm test` builds first.
 */
import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'
import { LongestFirst } from './test/support/longest-first.js'

const root = import.meta.dirname
const resolve = { alias: [{ find: /^#(.*)\.js$/, replacement: `${root}/src/$1.ts` }] }

/**
 * What runs one file at a time: it measures memory or processor time, fills a disk, sets the clock, or keeps both cores of a small machine busy
 * by itself.
 */
const ALONE = [
  'test/integration/devices/**/*.test.ts',
  'test/plugins/engine-nodes/{engine-node,vllm}.test.ts',
  'test/integration/api/access/limits.test.ts',
  'test/integration/inference/{core-sharing,engine-memory}.test.ts',
  'test/integration/storage/{clock-jumps,disk-faults}.test.ts',
  'test/integration/storage/postgres/{access,full-disk}.test.ts',
  'test/integration/training/rollouts.test.ts',
  'test/e2e/{cli,demo,memory-limit,node-versions,terminal}.test.ts',
  'test/nightly/**/*.test.ts',
]

/** What kills, stops or cuts off processes and waits for leases: nothing that computes much runs beside it. */
const KILLS = [
  'test/integration/{children,servers}/**/*.test.ts',
  'test/integration/faults/!(deleting|malformed-connections|pipelined-requests|publishing).test.ts',
  'test/integration/workers/!(direct-reads|torch-worker).test.ts',
  'test/integration/api/{engine-faults,faults,kills,real-children,resume}.test.ts',
  'test/integration/storage/{crashes,s3-faults}.test.ts',
  'test/integration/storage/faults/**/*.test.ts',
  'test/integration/storage/postgres/{faults,jobs,processes}.test.ts',
  'test/plugins/{environments,gateway}/kills.test.ts',
  'test/plugins/export/adapter-checks.test.ts',
  'test/e2e/{deployment,servers}/**/*.test.ts',
]

/** What lists tests as another run would: of the sources, and too long for those of them. */
const LISTS = ['test/architecture/unfetched.test.ts']

/** What none of the projects by need has: everything else runs two files at a time, with ports, folders and databases of its own. */
const APART = [...ALONE, ...KILLS]

/**
 * What has a process of its own, of the tests that else share one file after file (unit, API): it replaces a module, measures the memory of
 * the process, or collects its garbage often, which takes seconds each time where everything is loaded. The others import once what they all
 * import, which for the service takes two seconds of processor time.
 */
const OWN_PROCESS = [
  'test/unit/base/release-bytes.test.ts',
  'test/unit/cli/terminal/io.test.ts',
  'test/unit/formats/rows/sft-data.test.ts',
  'test/unit/sdk/client/exchange.test.ts',
  'test/unit/service/http/connections/open-bodies.test.ts',
]

// Times end what hangs: they are far above what anything needs on a machine that is busy with something else.
const times = { testTimeout: 300_000, hookTimeout: 300_000 }
const PAIRS = { ...times, maxWorkers: 2 }
const UNIT = { maxWorkers: Math.max(2, availableParallelism() - 1), testTimeout: 120_000, hookTimeout: 120_000 }

type Files = readonly string[]
interface Project {
  readonly files: Files
  readonly but?: Files
  /** What `npm test` runs of it, and what only `npm run test:nightly`; the rest is of the tier `all`. */
  readonly quick?: Files
  readonly nightly?: Files
  readonly options: object
}

/** In the order in which they run; those that run file by file come last. */
const PROJECTS: Readonly<Record<string, Project>> = {
  unit: {
    files: ['test/{unit,contract,architecture}/**/*.test.ts'],
    but: [...OWN_PROCESS, ...LISTS],
    quick: ['test/{unit,contract,architecture}/**/*.test.ts'],
    options: { ...UNIT, isolate: false, sequence: { groupOrder: 1 } },
  },
  'unit-own': { files: OWN_PROCESS, quick: OWN_PROCESS, options: { ...UNIT, sequence: { groupOrder: 2 } } },
  api: {
    files: ['test/integration/api/**/*.test.ts'],
    but: APART,
    quick: [
      'test/integration/api/{auth,job-options,leniency,scenarios,training-jobs,worker-routes}.test.ts',
      'test/integration/api/{access,bodies,docs,models,webhooks}/**/*.test.ts',
      'test/integration/api/base-models/{given,warnings}.test.ts',
      'test/integration/api/chat/{chat,fields,protocol,refusals,request-fields,token-bytes,tools}.test.ts',
      'test/integration/api/inference/{completions,messages,metrics,responses,stored-responses,tokens}.test.ts',
      'test/integration/api/marks/marks.test.ts',
      'test/integration/api/tinker/samples.test.ts',
      'test/integration/api/training/{fine-tuning-lists,options,size-defaults,uploaded-rows}.test.ts',
      'test/integration/api/wandb/{tenancy,wandb}.test.ts',
    ],
    options: { ...PAIRS, isolate: false, sequence: { groupOrder: 3 } },
  },
  integration: {
    files: ['test/{integration,plugins}/**/*.test.ts', ...LISTS],
    but: ['test/integration/api/**', ...APART],
    // numbers against references, the loop, and a smoke test of what each part is for
    quick: [
      'test/integration/numerics/**/*.test.ts',
      'test/integration/demo/**/*.test.ts',
      'test/plugins/engine-nodes/vllm-wire.test.ts',
      'test/integration/inference/engine.test.ts',
      'test/integration/rl/{distill,session}.test.ts',
      'test/integration/storage/blob-stores.test.ts',
      'test/integration/storage/postgres/data-beside.test.ts',
      'test/integration/training/{jobs,promises}.test.ts',
      'test/integration/workers/torch-worker.test.ts',
      'test/plugins/export/exports.test.ts',
      'test/plugins/literature/losses.test.ts',
    ],
    // some build the whole package once more, some play with programs that take minutes to start, one is a public suite of thousands
    nightly: [
      'test/integration/growth/{adding-a-setting,adding-a-training-option,adding-an-endpoint}.test.ts',
      'test/integration/inference/schema-suite.test.ts',
      'test/integration/storage/postgres/facades.test.ts',
      'test/plugins/environments/{cli-agent,verifiers}.test.ts',
      'test/plugins/metrics-export/metrics-export.test.ts',
    ],
    options: { ...PAIRS, sequence: { groupOrder: 4 } },
  },
  e2e: {
    files: ['test/e2e/**/*.test.ts'],
    but: APART,
    quick: ['test/e2e/{openai-sdk,package}.test.ts'],
    // random requests, and every kind of file to a trained model: minutes each
    nightly: ['test/e2e/{init-files,schemathesis}.test.ts', 'test/e2e/tinker/{tinker-cookbook,tinker-torch}.test.ts'],
    options: { ...PAIRS, testTimeout: 600_000, sequence: { groupOrder: 4 } },
  },
  kills: {
    files: KILLS,
    // two kills, of a server and of a worker, among them
    quick: ['test/integration/api/{kills,real-children}.test.ts', 'test/integration/servers/duties.test.ts'],
    // rounds of chance, whole set-ups, and on PostgreSQL what its queue and its servers are held to without
    nightly: [
      'test/e2e/{deployment,servers}/**/*.test.ts',
      'test/integration/servers/cut-off-server.test.ts',
      'test/integration/storage/postgres/{faults,jobs,processes}.test.ts',
      'test/integration/workers/killed-anywhere.test.ts',
      'test/integration/workers/ray.test.ts',
      'test/plugins/{environments,gateway}/kills.test.ts',
    ],
    options: { ...PAIRS, testTimeout: 600_000, sequence: { groupOrder: 5 } },
  },
  alone: {
    files: ALONE,
    quick: ['test/integration/api/access/limits.test.ts'],
    // hours of kills, other versions of Node.js, what needs gigabytes of Python, a trial of WebGPU by software, and keys on
    // PostgreSQL once more
    nightly: [
      'test/nightly/**/*.test.ts',
      'test/e2e/node-versions.test.ts',
      'test/integration/devices/device-proof.test.ts',
      'test/integration/storage/postgres/access.test.ts',
      'test/plugins/engine-nodes/vllm.test.ts',
    ],
    options: { ...times, fileParallelism: false, testTimeout: 600_000 },
  },
  ui: { files: ['test/ui/**/*.test.ts'], options: { ...PAIRS, sequence: { groupOrder: 4 } } },
}

/** @returns what the mode has of a project: a tier's files, or all */
function filesOf(
  { files, but = [], quick = [], nightly = [] }: Project,
  mode: string,
): { include: Files; exclude: Files } {
  if (mode === 'quick') return { include: quick, exclude: but }
  if (mode === 'nightly') return { include: nightly, exclude: but }
  if (mode === 'all') return { include: files, exclude: [...but, ...quick, ...nightly] }
  if (mode !== 'test') throw new Error(`mode "${mode}" is no tier: quick, all or nightly, or none for every file`)
  return { include: files, exclude: but }
}

export default defineConfig(({ mode }) => ({
  test: {
    teardownTimeout: 120_000,
    // what is heavy runs where it is installed
    env: mode === 'nightly' ? { CI_HEAVY: '1' } : {},
    reporters: ['default', './test/support/summary-reporter.ts'],
    sequence: { sequencer: LongestFirst },
    projects: Object.entries(PROJECTS).flatMap(([name, project]) => {
      const { include, exclude } = filesOf(project, mode)
      const test = { name, pool: 'forks' as const, include: [...include], exclude: [...exclude], ...project.options }
      return include.length === 0 ? [] : [{ resolve, test }]
    }),
  },
}))
