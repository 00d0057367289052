/**
 * `/ui/loops`: loops that the server runs, newest first; reinforcement jobs of OpenAI's API are among them.
 */
import type { JSX } from 'preact'
import { hrefOf } from '../data/address.js'
import { nowMs } from '../data/clock.js'
import { formatAgo, formatCount, formatNumber } from '../data/format.js'
import { live } from '../data/live.js'
import { LOOPS_API, type Loop, takeLoop } from '../data/loops.js'
import { modelPath } from '../data/match.js'
import { useModels } from '../data/model-names.js'
import { useRows } from '../data/rows.js'
import { Block, Empty } from '../parts/block.js'
import { CopyAs } from '../parts/copy-as.js'
import { StatusTag } from '../parts/job-line.js'
import { Title } from '../parts/layout.js'
import { LiveMark } from '../parts/live-mark.js'
import { LoopProgress } from '../parts/loops/progress.js'

const REFRESH_MS = 3000
const RECORD_MS = 15_000

export function LoopsPage(): JSX.Element {
  const loops = useRows<Loop>(LOOPS_API, {
    topics: ['loop'],
    take: (rows, event) => {
      const data = rows.data.map((loop) => takeLoop(loop, event))
      const isKnown = rows.data.some(({ id }) => id === event.data['loop_id'])
      return isKnown && !data.includes(undefined) ? { ...rows, data: data as Loop[] } : undefined
    },
    everyMs: live.value === true ? RECORD_MS : REFRESH_MS,
  })
  return (
    <>
      <Title text="Loops">
        <LiveMark />
      </Title>
      <p class="soft">The server samples, grades and trains step by step: a grader is the reward.</p>
      <Block of={loops} height="16rem">
        {(page) =>
          page.data.length === 0 ? (
            <Empty command="trainyard train rl my-model --prompts prompts.jsonl --grader grader.json">
              No loop yet. Write a grader, and let the server train by it.
            </Empty>
          ) : (
            <>
              <Rows loops={page.data} />
              {page.has_more && (
                <p class="row">
                  {loops.more !== null && (
                    <button type="button" onClick={loops.more}>
                      More
                    </button>
                  )}
                  <span class="soft">{formatCount(page.data.length)} shown, there are more</span>
                </p>
              )}
            </>
          )
        }
      </Block>
      <CopyAs cli="trainyard loops list" path={LOOPS_API} />
    </>
  )
}

function Rows({ loops }: { readonly loops: readonly Loop[] }): JSX.Element {
  const at = nowMs()
  const models = useModels(loops)
  return (
    <div class="table">
      <table class="stacked">
        <thead>
          <tr>
            <th scope="col">Loop</th>
            <th scope="col">Status</th>
            <th scope="col">Steps</th>
            <th scope="col" class="number">
              Reward, held out
            </th>
            <th scope="col">Grader</th>
            <th scope="col">Created</th>
          </tr>
        </thead>
        <tbody>
          {loops.map((loop) => {
            const model = models.get(loop.model_id)
            return (
              <tr key={loop.id}>
                <th scope="row" class="name">
                  <a href={hrefOf(`/loops/${loop.id}`)}>{model?.name ?? loop.id.slice(0, 8)}</a>
                  {model !== undefined && (
                    <a class="soft small" href={hrefOf(modelPath(model))}>
                      {' '}
                      its model
                    </a>
                  )}
                </th>
                <td data-label="Status">
                  <span>
                    <StatusTag job={loop} /> <span class="soft small">{loop.phase ?? ''}</span>
                  </span>
                </td>
                <td data-label="Steps">
                  <LoopProgress loop={loop} />
                </td>
                <td data-label="Reward, held out" class="number">
                  {formatNumber(loop.evaluations.at(-1)?.valid_reward)}
                </td>
                <td data-label="Grader">{String(loop.grader['name'] ?? loop.grader['type'] ?? '')}</td>
                <td data-label="Created" class="nowrap">
                  {formatAgo(loop.created_at, at)}
                </td>
              </tr>
            )
          })}
        </tbody>
      </table>
    </div>
  )
}
