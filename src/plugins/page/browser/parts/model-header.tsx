/**
 * What stands on all pages of a model: its name and step, whether it learns, how its first curve went, and the way to the others.
 */
import type { JSX } from 'preact'
import { useMemo } from 'preact/hooks'
import type { LogComparison } from '#contract/wire/log-comparison.js'
import type { ListedModel, Model } from '#contract/wire/models.js'
import { hrefOf } from '../data/address.js'
import { ask } from '../data/client.js'
import { nowMs } from '../data/clock.js'
import { type Curves, defaultKeys, describeCurve, nameOf } from '../data/curves.js'
import { formatAgo } from '../data/format.js'
import { type Loaded, useLoad } from '../data/load.js'
import { modelPath } from '../data/match.js'
import { readCurves, readModel } from '../data/models.js'
import { SPARK_HEIGHT, SPARK_WIDTH, sparkPoints } from '../data/spark.js'
import { evaluatedOf, verdictOf } from '../data/verdict.js'
import { Title, useCurrentInView } from './layout.js'
import { ModelNote } from './model-note.js'

const TABS = [
  ['', 'Curves'],
  ['/evaluations', 'Evaluations'],
  ['/watch', 'Watch'],
  ['/marks', 'Marks'],
  ['/checkpoints', 'Checkpoints'],
] as const
export type ModelTab = (typeof TABS)[number][1]

/** The model of an address, for its pages. */
export function useModel(project: string, name: string): Loaded<ListedModel> {
  return useLoad(`${project}/${name}`, (signal) => readModel(project, name, signal), { topics: ['checkpoint'] })
}

/** The numbers of a model. @param everyMs asked again so often, where there is no news */
export function useCurves(modelId: string | null, everyMs: number | null = null): Loaded<Curves> {
  return useLoad(modelId === null ? null : `curves of ${modelId}`, (signal) => readCurves(modelId ?? '', signal), {
    topics: ['checkpoint', 'log'],
    everyMs,
    ...(modelId === null ? {} : { modelId }),
  })
}

export function ModelHeader(props: {
  readonly project: string
  readonly name: string
  readonly tab: ModelTab
}): JSX.Element {
  const { project, name, tab } = props
  const model = useModel(project, name)
  const tabs = useCurrentInView<HTMLUListElement>(tab)
  const full = encodeURIComponent(`${project}/${name}`)
  return (
    <header class="model-header stack">
      <Title text={name} tab={tab === 'Curves' ? name : `${tab} of ${name}`}>
        {model.data !== null && (
          <span class="soft">
            {model.data.base_model} → step {model.data.step} · created {formatAgo(model.data.created_at, nowMs())}
          </span>
        )}
        <p class="actions">
          <a class="button primary" href={hrefOf(`/play?m=${full}`)}>
            Play
          </a>
          <a class="button" href={hrefOf(`/train?m=${full}`)}>
            Train…
          </a>
        </p>
      </Title>
      {model.data !== null && <ModelNote model={model.data} onChange={model.reload} />}
      {model.data !== null && <DoesItLearn model={model.data} />}
      <nav aria-label={`Pages of ${name}`}>
        <ul class="tabs" ref={tabs}>
          {TABS.map(([below, title]) => (
            <li key={title}>
              <a href={hrefOf(modelPath({ project, name }, below))} aria-current={title === tab ? 'page' : undefined}>
                {title}
              </a>
            </li>
          ))}
        </ul>
      </nav>
    </header>
  )
}

const LOOKS = { Learns: 'learns', 'Does not learn': 'not', 'Cannot be said yet': 'unsaid' } as const

export function DoesItLearn({ model }: { readonly model: Model }): JSX.Element | null {
  const curves = useCurves(model.id)
  const evaluated = useMemo(() => (curves.data === null ? null : evaluatedOf(curves.data)), [curves.data])
  const path =
    evaluated === null
      ? null
      : `/v1/preview/models/${encodeURIComponent(model.id)}/log/compare?${new URLSearchParams({
          split: evaluated.split,
          a: String(evaluated.a),
          b: String(evaluated.b),
          limit: '1',
        })}`
  const compared = useLoad(path, (signal) => ask<LogComparison>(path ?? '', { signal }), {
    topics: ['log'],
    modelId: model.id,
  })
  const known = curves.data
  if (known === null || known.steps.length === 0 || (path !== null && compared.data === null)) return null
  const { word, why } = verdictOf(path === null ? null : compared.data, model.name)
  const [first] = defaultKeys(known)
  const values = first === undefined ? [] : (known.series[first] ?? [])
  return (
    <div class="verdict">
      <p class="row">
        <strong class={`word ${LOOKS[word]}`}>{word}</strong>
        {values.filter((value) => value !== null).length > 1 && (
          <svg
            class="spark-line"
            aria-hidden="true"
            width={SPARK_WIDTH}
            height={SPARK_HEIGHT}
            viewBox={`0 0 ${SPARK_WIDTH} ${SPARK_HEIGHT}`}
          >
            <polyline points={sparkPoints(values.flatMap((value) => value ?? []))} />
          </svg>
        )}
        <span>{why}</span>
      </p>
      {first !== undefined && (
        <p class="soft">{describeCurve(nameOf(first).title, known.steps, values, nameOf(first).wants)}</p>
      )}
    </div>
  )
}
