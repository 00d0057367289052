/**
 * What was said at one step of a model, beside its curves: the members of a group that made it, each a link to its
 * tokens, and the answers to prompts that are watched. The group is kept by its prompt, so that moving along the steps
 * compares the same question.
 */

import type { JSX } from 'preact'
import type { RolloutGroup, RolloutGroupDetail, RolloutGroupList } from '#contract/wire/training/rollouts.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { hrefOf, query, setQuery } from '../data/address.js'
import { ask } from '../data/client.js'
import { type Curves, pathOfPoint } from '../data/curves.js'
import { formatNumber, plural, withoutTurns } from '../data/format.js'
import { useLoad } from '../data/load.js'
import { groupsPath, jobApi } from '../data/rollouts.js'
import { KINDS } from '../data/train/kinds.js'
import { lowerWordsOf } from '../data/words.js'
import { SaidAtStep } from './watch/said-at-step.js'

/** Members of a group that are shown here, best first. */
const MOST_MEMBERS = 6

export function StepAnswers(props: {
  readonly modelId: string
  readonly curves: Curves
  readonly index: number
  readonly onStep: (step: number) => void
}): JSX.Element {
  const { modelId, curves, index, onStep } = props
  const step = curves.steps[index] ?? 0
  const newest = curves.steps.at(-1) ?? 0
  const path = pathOfPoint(curves, index)
  const [before, after] = [curves.steps[index - 1], curves.steps[index + 1]]
  const job = curves.job_ids[index] ?? null
  return (
    <section class="card stack answers-of-step" aria-labelledby="answers-of-step">
      <div class="row">
        <button
          type="button"
          aria-label="The step before"
          disabled={before === undefined}
          onClick={() => before !== undefined && onStep(before)}
        >
          ‹
        </button>
        <h2 id="answers-of-step">Step {step}</h2>
        <button
          type="button"
          aria-label="The step behind"
          disabled={after === undefined}
          onClick={() => after !== undefined && onStep(after)}
        >
          ›
        </button>
        {step !== newest && (
          <button type="button" class="link small" onClick={() => onStep(newest)}>
            newest: {newest}
          </button>
        )}
        <span class="push" />
        {path !== null && (
          <a class="small" href={hrefOf(path)}>
            {job === null ? 'Its session' : 'Its job'}
          </a>
        )}
      </div>
      {job !== null && <Rollouts job={job} />}
      <SaidAtStep modelId={modelId} step={step} />
    </section>
  )
}

/** What a job trained on is asked for only where it is kept. */
function Rollouts({ job }: { readonly job: string }): JSX.Element | null {
  const path = jobApi(job)
  const record = useLoad(path, (signal) => ask<TrainingJob>(path, { signal }))
  if (record.error !== null) return <p class="soft">{record.error.message}</p>
  if (record.data === null) return null
  const { kind, data_kept_until: isKept, group_count: groups } = record.data
  if (isKept === null) return <p class="soft">What it trained on is not kept any more.</p>
  if (KINDS[kind].data === 'rows') {
    return (
      <p class="soft">
        It learned from rows of a file: <a href={hrefOf(`/jobs/${encodeURIComponent(job)}`)}>what it trained on</a>
      </p>
    )
  }
  if (groups === null) return <p class="soft">No groups were noted of what it trained on.</p>
  return <Groups job={job} />
}

function Groups({ job }: { readonly job: string }): JSX.Element | null {
  const path = jobApi(job, '/groups?limit=100&sort=-reward_std_dev')
  const groups = useLoad(path, (signal) => ask<RolloutGroupList>(path, { signal }))
  if (groups.error !== null) return <p class="soft">{groups.error.message}</p>
  if (groups.data === null) return null
  const wanted = query.value.get('asked')
  const { data } = groups.data
  const chosen = data.find((group) => group.prompt_preview === wanted) ?? data[0]
  if (chosen === undefined) return <p class="soft">Nothing was kept of what it trained on.</p>
  return (
    <div class="stack" aria-busy={groups.isOld}>
      <label class="asked-of-step small">
        <span class="soft">Asked</span>
        <select value={chosen.prompt_preview} onChange={(event) => setQuery({ asked: event.currentTarget.value })}>
          {[...new Map(data.map((group) => [group.prompt_preview, group])).values()].map((group) => (
            <option key={group.index} value={group.prompt_preview}>
              {nameOfGroup(group)}
            </option>
          ))}
        </select>
      </label>
      {!groups.isOld && <Members job={job} index={chosen.index} />}
      <p class="small">
        <a href={hrefOf(groupsPath(job))}>All {plural(groups.data.group_count, 'group')}</a>
      </p>
    </div>
  )
}

function nameOfGroup({ index, prompt_preview: prompt }: RolloutGroup): string {
  return prompt === '' ? `group ${index}` : withoutTurns(prompt)
}

function Members({ job, index }: { readonly job: string; readonly index: number }): JSX.Element | null {
  const path = jobApi(job, `/groups/${index}`)
  const group = useLoad(path, (signal) => ask<RolloutGroupDetail>(path, { signal }))
  if (group.error !== null) return <p class="soft">{group.error.message}</p>
  if (group.data === null) return null
  const members = [...group.data.members].sort((a, b) => b.reward - a.reward)
  const left = members.length - MOST_MEMBERS
  return (
    <ol class="plain said-here">
      {members.slice(0, MOST_MEMBERS).map((member) => (
        <li key={member.index}>
          <a href={hrefOf(groupsPath(job, `/${index}/${member.index}`))}>
            <span class="raw">{member.answer === '' ? '(no answer)' : withoutTurns(member.answer)}</span>
            <span class="soft small">
              reward {formatNumber(member.reward)} ·{' '}
              {member.advantage === null
                ? lowerWordsOf(member.left_out ?? '')
                : `advantage ${formatNumber(member.advantage)}`}{' '}
              · {plural(member.tokens, 'token')}
            </span>
          </a>
        </li>
      ))}
      {left > 0 && (
        <li>
          <a class="small" href={hrefOf(groupsPath(job, `/${index}`))}>
            {left} more
          </a>
        </li>
      )}
    </ol>
  )
}
