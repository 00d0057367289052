/**
 * `/ui/jobs/:id/grader`: a reward is written and tried on answers that the job kept, beside those they had, before it trains.
 */
import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { command } from '#contract/wire/command-words.js'
import type { RolloutGroup, RolloutGroupDetail, RolloutGroupList } from '#contract/wire/training/rollouts.js'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { hrefOf, query, route, setQuery } from '../data/address.js'
import { type ApiError, toApiError } from '../data/api-error.js'
import { ask } from '../data/client.js'
import { saveBlob } from '../data/download.js'
import { formatNumber, plural, withoutTurns } from '../data/format.js'
import { type Grade, gradeKept, readRecord, toText, written } from '../data/grading.js'
import { useGone, useLoad } from '../data/load.js'
import { useModels } from '../data/model-names.js'
import { groupsPath, jobApi } from '../data/rollouts.js'
import { BeginWith } from '../parts/begin-with.js'
import { Block, Command, Empty, Failure } from '../parts/block.js'
import { GraderSaid } from '../parts/grader-said.js'
import { TextField } from '../parts/json-field.js'
import { Title } from '../parts/layout.js'

const MOST_GROUPS = 100
/** Of an answer in the table. */
const CHARACTERS = 400
const FILE = 'grader.json'

export function GraderPage(): JSX.Element {
  const { id = '' } = route.value.params
  const path = jobApi(id, `/groups?limit=${MOST_GROUPS}&sort=-reward_std_dev`)
  const groups = useLoad(path, (signal) => ask<RolloutGroupList>(path, { signal }))
  const job = useLoad(jobApi(id), (signal) => ask<TrainingJob>(jobApi(id), { signal }))
  const models = useModels(job.data === null ? [] : [job.data])
  const known = models.get(job.data?.model_id ?? '')
  const model = known === undefined ? 'my-model' : `${known.project}/${known.name}`
  return (
    <>
      <Title text="Try a reward">
        <p class="actions">
          <a class="button" href={hrefOf(groupsPath(id))}>
            Rollouts
          </a>
          <a class="button" href={hrefOf(`/jobs/${encodeURIComponent(id)}`)}>
            The job
          </a>
        </p>
      </Title>
      <p class="soft">
        A grader is a reward as a file. Here it scores answers that this job trained on, beside the rewards they had.
      </p>
      <Block of={groups} height="30rem">
        {({ data }) =>
          data.length === 0 ? (
            <Empty>Nothing was kept of this job.</Empty>
          ) : (
            <Trial id={id} model={model} groups={data} />
          )
        }
      </Block>
    </>
  )
}

function Trial(props: {
  readonly id: string
  readonly model: string
  readonly groups: readonly RolloutGroup[]
}): JSX.Element {
  const { id, groups } = props
  const wanted = Number(query.value.get('group') ?? groups[0]?.index)
  const index = groups.some((group) => group.index === wanted) ? wanted : (groups[0]?.index ?? 0)
  const path = jobApi(id, `/groups/${index}`)
  const group = useLoad(path, (signal) => ask<RolloutGroupDetail>(path, { signal }))
  return (
    <>
      <label class="asked-of-step">
        Answers to{' '}
        <select value={index} onChange={(event) => setQuery({ group: event.currentTarget.value })}>
          {groups.map((each) => (
            <option key={each.index} value={each.index}>
              {each.index} · {withoutTurns(each.prompt_preview)}
            </option>
          ))}
        </select>
      </label>
      <Block of={group} height="24rem">
        {(detail) => <Editor key={detail.index} id={id} group={detail} />}
      </Block>
      <p class="soft">Then answers are sampled with it, to train on:</p>
      <Command
        text={command`trainyard rollout ${props.model} --prompts prompts.jsonl --grader ${FILE} --out groups.jsonl`}
      />
    </>
  )
}

type Grades = ReadonlyMap<number, Grade>

function Editor({ id, group }: { readonly id: string; readonly group: RolloutGroupDetail }): JSX.Element {
  const [text, setText] = useState(written.grader)
  const [row, setRow] = useState(toText(group.metadata))
  const [grades, setGrades] = useState<Grades>(new Map())
  const [error, setError] = useState<ApiError | null>(null)
  const [isBusy, setIsBusy] = useState(false)
  const gone = useGone()
  const grader = readRecord(text)
  const item = readRecord(row)
  useEffect(() => {
    written.grader = text
  }, [text])

  async function run(): Promise<void> {
    if (typeof grader === 'string' || typeof item === 'string') return
    setIsBusy(true)
    setError(null)
    const found = new Map<number, Grade>()
    setGrades(found)
    try {
      for (const member of group.members) {
        found.set(member.index, await gradeKept({ grader, item, job: id, group: group.index, member }, gone))
        setGrades(new Map(found))
      }
    } catch (raw) {
      if (!gone.aborted) setError(toApiError(raw))
    }
    if (!gone.aborted) setIsBusy(false)
  }
  return (
    <>
      <form
        class="card stack grader"
        onSubmit={(event) => {
          event.preventDefault()
          void run()
        }}
      >
        <BeginWith onText={setText} />
        <TextField name="The grader" text={text} rows={12} onText={setText} problem={grader} />
        <TextField name="The row, as item" text={row} rows={4} onText={setRow} problem={item} />
        <p class="row">
          <button
            type="submit"
            class="primary"
            disabled={isBusy || typeof grader === 'string' || typeof item === 'string'}
          >
            {isBusy ? 'Scoring…' : `Score ${plural(group.members.length, 'answer')}`}
          </button>
          <button type="button" onClick={() => saveBlob(new Blob([`${text}\n`], { type: 'application/json' }), FILE)}>
            Save as {FILE}
          </button>
        </p>
        {error !== null && <Failure error={error} />}
      </form>
      <Scores group={group} grades={grades} />
    </>
  )
}

function Scores({ group, grades }: { readonly group: RolloutGroupDetail; readonly grades: Grades }): JSX.Element {
  const values = [...grades.values()].map(({ reward }) => reward)
  const isEqual = values.length === group.members.length && new Set(values).size === 1 && values.length > 1
  return (
    <>
      {isEqual && (
        <p class="warnings open" role="status">
          Every answer earns {formatNumber(values[0])}: by this reward the group would teach nothing.
        </p>
      )}
      <div class="table">
        <table class="stacked">
          <thead>
            <tr>
              <th scope="col" class="number">
                Answer
              </th>
              <th scope="col">Text</th>
              <th scope="col" class="number">
                Reward it had
              </th>
              <th scope="col" class="number">
                Score
              </th>
              <th scope="col">What was found</th>
            </tr>
          </thead>
          <tbody>
            {group.members.map((member) => (
              <tr key={member.index}>
                <th scope="row" class="number">
                  {member.index}
                </th>
                <td data-label="Text" class="text">
                  <span class="raw">
                    {member.answer === '' ? '(no answer)' : withoutTurns(member.answer.slice(0, CHARACTERS))}
                    {member.answer.length > CHARACTERS && '…'}
                  </span>
                </td>
                <td data-label="Reward it had" class="number">
                  {formatNumber(member.reward)}
                </td>
                <td data-label="Score" class="number">
                  <strong>{formatNumber(grades.get(member.index)?.reward)}</strong>
                </td>
                <td data-label="What was found">
                  <Found grade={grades.get(member.index)} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  )
}

function Found({ grade }: { readonly grade: Grade | undefined }): JSX.Element {
  if (grade === undefined) return <span class="soft">–</span>
  return <GraderSaid found={{ ...grade.metadata, sub_rewards: grade.sub_rewards }} />
}
