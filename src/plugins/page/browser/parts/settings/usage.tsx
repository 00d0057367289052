/**
 * What was used: requests, tokens and training time by day, model, project or key.
 */

import type { JSX } from 'preact'
import type { KeyUsageResponse, UsageResponse } from '#contract/wire/access/usage.js'
import { command } from '#contract/wire/command-words.js'
import { query, setQuery } from '../../data/address.js'
import { ask } from '../../data/client.js'
import { nowMs } from '../../data/clock.js'
import { formatCount, formatSeconds } from '../../data/format.js'
import { useLoad } from '../../data/load.js'
import { missingScope } from '../../data/session.js'
import { addUpUsage, firstDay, USAGE_GROUPS, type UsageSum } from '../../data/usage.js'
import { Block, Empty } from '../block.js'
import { CopyAs } from '../copy-as.js'

const DAYS = [7, 30, 90] as const
const USUAL_DAYS = 30
const COLUMNS: readonly (readonly [string, (sum: Omit<UsageSum, 'name'>) => string])[] = [
  ['Requests', ({ requests }) => formatCount(requests)],
  ['Prompt tokens', (sum) => formatCount(sum.prompt_tokens)],
  ['of them cached', (sum) => formatCount(sum.cached_tokens)],
  ['Answer tokens', (sum) => formatCount(sum.completion_tokens)],
  ['Training', (sum) => formatSeconds(sum.training_seconds)],
]

export function Usage(): JSX.Element {
  const isByKey = query.value.get('usage') === 'key'
  const group = USAGE_GROUPS.find((name) => name === query.value.get('usage')) ?? 'day'
  const days = DAYS.find((count) => String(count) === query.value.get('days')) ?? USUAL_DAYS
  const from = firstDay(days, nowMs())
  const path = `/v1/usage?from=${from}`
  const usage = useLoad(isByKey ? null : path, (signal) => ask<UsageResponse>(path, { signal }))
  return (
    <section class="card" aria-labelledby="usage">
      <h2 id="usage">Usage</h2>
      <div class="row">
        <label class="row">
          By
          <select
            value={isByKey ? 'key' : group}
            onChange={({ currentTarget: { value } }) => setQuery({ usage: value === 'day' ? null : value })}
          >
            {USAGE_GROUPS.map((name) => (
              <option key={name}>{name}</option>
            ))}
            <option>key</option>
          </select>
        </label>
        <label class="row">
          Last
          <select
            value={String(days)}
            onChange={({ currentTarget: { value } }) => setQuery({ days: Number(value) === USUAL_DAYS ? null : value })}
          >
            {DAYS.map((count) => (
              <option key={count} value={String(count)}>
                {count} days
              </option>
            ))}
          </select>
        </label>
      </div>
      {isByKey ? (
        <ByKey from={from} />
      ) : (
        <>
          <Block of={usage} height="8rem">
            {({ data, total, is_truncated: isTruncated }) =>
              data.length === 0 ? (
                <Empty>Nothing was asked or trained in these days.</Empty>
              ) : (
                <>
                  {isTruncated && (
                    <p class="warnings">There are more rows than one answer holds: the sums are too small.</p>
                  )}
                  {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard */}
                  <section class="table" tabIndex={0} aria-label={`Usage by ${group}`}>
                    <table class="stacked">
                      <thead>
                        <tr>
                          <th scope="col">{group === 'day' ? 'Day (UTC)' : group === 'model' ? 'Model' : 'Project'}</th>
                          {COLUMNS.map(([title]) => (
                            <th scope="col" key={title} class="number">
                              {title}
                            </th>
                          ))}
                        </tr>
                      </thead>
                      <tbody>
                        {addUpUsage(data, group).map((sum) => (
                          <Row key={sum.name} name={sum.name} sum={sum} />
                        ))}
                        <Row name="Total" sum={total} />
                      </tbody>
                    </table>
                  </section>
                </>
              )
            }
          </Block>
          <CopyAs cli={command`trainyard usage --from ${from}`} path={path} />
        </>
      )}
    </section>
  )
}

/** Training time belongs to no key. */
function ByKey({ from }: { readonly from: string }): JSX.Element {
  const path = `/v1/preview/keys/usage?from=${from}`
  const missing = missingScope('admin')
  const usage = useLoad(missing === null ? path : null, (signal) => ask<KeyUsageResponse>(path, { signal }))
  if (missing !== null) return <p class="soft">Usage by key {missing}.</p>
  const columns = COLUMNS.slice(0, -1)
  return (
    <>
      <Block of={usage} height="8rem">
        {({ data, is_truncated: isTruncated }) =>
          data.length === 0 ? (
            <Empty>No key asked for anything in these days.</Empty>
          ) : (
            <>
              {isTruncated && <p class="warnings">There are more keys than one answer holds.</p>}
              {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard */}
              <section class="table" tabIndex={0} aria-label="Usage by key">
                <table class="stacked">
                  <thead>
                    <tr>
                      <th scope="col">Key</th>
                      {columns.map(([title]) => (
                        <th scope="col" key={title} class="number">
                          {title}
                        </th>
                      ))}
                    </tr>
                  </thead>
                  <tbody>
                    {data.map((row) => (
                      <tr key={row.key_id}>
                        <th scope="row" class="name">
                          {row.key_prefix === null ? 'a revoked key' : row.name || 'without a name'}{' '}
                          <code class="small soft">{row.key_prefix ?? row.key_id}</code>
                        </th>
                        {columns.map(([title, show]) => (
                          <td key={title} data-label={title} class="number">
                            {show({ ...row, training_seconds: 0 })}
                          </td>
                        ))}
                      </tr>
                    ))}
                  </tbody>
                </table>
              </section>
            </>
          )
        }
      </Block>
      <p class="soft small">A session of a browser counts for its key. Training time belongs to no key.</p>
      <CopyAs cli={command`trainyard keys usage --from ${from}`} path={path} />
    </>
  )
}

function Row({ name, sum }: { readonly name: string; readonly sum: Omit<UsageSum, 'name'> }): JSX.Element {
  return (
    <tr>
      <th scope="row" class="name">
        {name}
      </th>
      {COLUMNS.map(([title, show]) => (
        <td key={title} data-label={title} class="number">
          {show(sum)}
        </td>
      ))}
    </tr>
  )
}
