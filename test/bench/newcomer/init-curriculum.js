/**
 * The task that `trainyard init --have checker --prompts sample` writes, by its own loop and with a curriculum in it: six jobs of so many of its 32
 * prompts, in turn or drawn by success rates, everything else on the defaults. Answers whether the template should have one.
 *
 *     npm run build && node test/bench/newcomer/init-curriculum.js [--seeds 1,2,3] [--jobs 6] [--sizes 16,8]
 *
 * Prints a row of Markdown for each: held-out reward before and after each job, each seed, and the tokens that were sampled to train on.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { gather, group, openCurriculum, startLocal, TrainableModel } from 'trainyard/rl'

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '1,2,3' },
    jobs: { type: 'string', default: '6' },
    sizes: { type: 'string', default: '16,8' },
  },
})
const folder = mkdtempSync(path.join(tmpdir(), 'init-curriculum-'))
const written = path.join(folder, 'mails')
const BIN = path.resolve(import.meta.dirname, '../../../bin/trainyard.js')
const init = ['init', written, '--base-model', 'trainyard/spark', '--have', 'checker', '--prompts', 'sample']
execFileSync(process.execPath, [BIN, ...init])
const [training, heldOut] = ['train', 'held-out'].map((name) =>
  readFileSync(path.join(written, `${name}.jsonl`), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line)),
)
/** As its reward file has it. */
const reward = (answer, row) => (answer.trim() === row.answer ? 1 : answer.includes(row.answer) ? 0.4 : 0)
const local = await startLocal()

async function oneRun({ name, seed, size, isDrawn }) {
  const model = await new TrainableModel(local.client, { name, baseModel: 'trainyard/spark' }).register()
  const plans = (rows, count, round) =>
    rows.map((row, i) =>
      group(
        count,
        async (j) => {
          const trajectory = model.trajectory([{ role: 'user', content: row.prompt }])
          await trajectory.ask({ maxTokens: 16, seed: ((seed * 100 + round) * 64 + i) * 16 + (j ?? 0) })
          trajectory.reward = reward(trajectory.answer, row)
          return trajectory
        },
        { key: row.prompt },
      ),
    )
  const measure = async () =>
    (await model.evaluate(await gather(plans(heldOut, 4, 0)), { onWarning: () => {} })).metrics['val/reward']
  const curriculum = isDrawn ? await openCurriculum({ file: path.join(folder, `${name}.json`), seed }) : null
  const curve = [await measure()]
  let tokens = 0
  for (let job = 1; job <= Number(values.jobs); job += 1) {
    const batch = Array.from({ length: size }, (_, i) => training[(size * (job - 1) + i) % training.length])
    const groups = isDrawn
      ? await gather(plans(training, 8, job), { curriculum, pick: size })
      : await gather(plans(batch, 8, job))
    tokens += groups
      .flatMap(({ trajectories }) => trajectories.flatMap(({ choices }) => choices))
      .reduce((sum, choice) => sum + choice.token_ids.length, 0)
    await model.train(groups, { config: { seed }, onWarning: () => {} })
    curve.push(await measure())
  }
  return { curve, tokens }
}

try {
  console.log(
    '| prompts of a job | asked | seed | held out, before and after each job | tokens |\n| --- | --- | --- | --- | --- |',
  )
  for (const size of values.sizes.split(',').map(Number)) {
    for (const isDrawn of [false, true]) {
      for (const seed of values.seeds.split(',').map(Number)) {
        const name = `${isDrawn ? 'drawn' : 'turn'}-${size}-${seed}`
        const { curve, tokens } = await oneRun({ name, seed, size, isDrawn })
        const shown = curve.map((each) => each.toFixed(2)).join(' ')
        console.log(`| ${size} | ${isDrawn ? 'by the curriculum' : 'in turn'} | ${seed} | ${shown} | ${tokens} |`)
      }
    }
  }
} finally {
  await local.close()
  rmSync(folder, { recursive: true, force: true })
}
