/**
 * The best and the worst answers of a loop's newest evaluation, with what each grader said of them.
 */
import type { JSX } from 'preact'
import { hrefOf } from '../../data/address.js'
import { formatNumber, withoutTurns } from '../../data/format.js'
import type { LoopAnswers, LoopExample } from '../../data/loops.js'
import { GraderSaid } from '../grader-said.js'

export function LoopAnswersList(props: { readonly answers: LoopAnswers; readonly loopId: string }): JSX.Element | null {
  const { step, checkpoint_step: checkpoint, best, worst } = props.answers
  if (step === null) return null
  const sides = [
    ['best', 'Best', best],
    ['worst', 'Worst', worst],
  ] as const
  return (
    <section class="stack" aria-labelledby="answers">
      <h2 id="answers">
        Answers of the last evaluation{' '}
        <span class="soft">
          after step {step}, checkpoint {checkpoint}
        </span>
      </h2>
      <div class="two">
        {sides.map(([side, title, examples]) => (
          <section key={side} class="stack" aria-label={`${title} answers`}>
            <h3>{title}</h3>
            <ol class="plain stack">
              {examples.map((example, i) => (
                <li key={i} class="card">
                  <Example
                    example={example}
                    tryAt={`/graders?loop=${encodeURIComponent(props.loopId)}&answer=${side}${i}`}
                  />
                </li>
              ))}
            </ol>
            {examples.length === 0 && <p class="soft">Too few answers for this side.</p>}
          </section>
        ))}
      </div>
    </section>
  )
}

function Example({ example, tryAt }: { readonly example: LoopExample; readonly tryAt: string }): JSX.Element {
  return (
    <>
      <p class="row">
        <strong class="facts-number">{formatNumber(example.reward)}</strong>
        <GraderSaid found={example} />
        <span class="push" />
        <a class="small" href={hrefOf(tryAt)}>
          try it
        </a>
      </p>
      <p class="raw soft">{withoutTurns(example.prompt)}</p>
      <p class="raw">{example.answer === '' ? '(nothing)' : withoutTurns(example.answer)}</p>
    </>
  )
}
