/**
 * A loop of the server on its page: rewards, graders, errors, tokens and money, answers, jobs, live; paused, resumed and
 * cancelled by its buttons. And its grader in the editor, which says where it is wrong and what it gives an answer.
 */
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Loop, LoopAnswers, LoopMetrics } from '#plugins/loops/wire.js'
import { createTestService, type TestService } from '../support/service/create-test-service.js'
import { until } from '../support/until.js'
import { CHROMIUM, launchBrowser, openWindow } from './browser.js'
import { expectSound } from './sound.js'

const LOOPS = '/v1/preview/loops'
const HOSTILE = '<img src=x onerror=alert(1)>'
/** Some answers of the random model hold it, some do not; what the judge says is random, and costs tokens. */
const GRADER = {
  type: 'multi',
  name: 'both',
  graders: {
    holds: {
      type: 'string_check',
      name: 'holds',
      input: '{{sample.output_text}}',
      reference: '{{item.part}}',
      operation: 'ilike',
    },
    judge: {
      type: 'label_model',
      name: 'judge',
      model: 'trainyard/tiny-random',
      input: [{ role: 'user', content: 'Is {{sample.output_text}} good?' }],
      labels: ['good', 'bad'],
      passing_labels: ['good'],
    },
  },
  calculate_output: 'holds + 0.1 * judge',
}
const ROWS = ['e', 'a', 'i', 'o', 't', 'n', 's', 'r'].map((part, i) => ({
  messages: [{ role: 'user', content: `Say ${part}, ${i}. ${HOSTILE}` }],
  part,
}))

let service: TestService
let browser: Browser
let token: string
let promptsFile: string

async function create(name: string, changes: object = {}): Promise<string> {
  const { status, body } = await service.json<Loop>(LOOPS, {
    json: {
      model_id: await service.createModel(name),
      prompts_file: promptsFile,
      grader: GRADER,
      ...{ steps: 3, prompts_per_step: 3, answers_per_prompt: 4, held_out_rows: 4, evaluate_every: 1, seed: 11 },
      sampling: { max_completion_tokens: 12 },
      limits: { grader_tokens: 5_000_000 },
      config: { learning_rate: 1e-3, seed: 3 },
      ...changes,
    },
  })
  expect(status, JSON.stringify(body)).toBe(200)
  return body.id
}

const get = async (id: string): Promise<Loop> => (await service.json<Loop>(`${LOOPS}/${id}`)).body

async function untilEnded(id: string): Promise<Loop> {
  return await until(
    async () => {
      const loop = await get(id)
      return ['succeeded', 'failed', 'cancelled'].includes(loop.status) ? loop : null
    },
    `end of loop ${id}`,
    300_000,
  )
}

describe.skipIf(CHROMIUM === null)('loops on the page', () => {
  beforeAll(async () => {
    service = await createTestService({
      scripted: false,
      threads: 1,
      tuning: { plugins: { loops: { pollMs: 20, retryMs: 10 } } },
    })
    browser = await launchBrowser()
    token = (await service.json<{ token: string }>('/v1/preview/sessions', { json: { name: 'test' } })).body.token
    const body = ROWS.map((row) => JSON.stringify(row)).join('\n')
    const file = await service.json<{ id: string }>('/v1/files?filename=prompts.jsonl', { method: 'POST', body })
    promptsFile = file.body.id
  })
  afterAll(async () => {
    await browser?.close()
    await service?.dispose()
  })
  const open = () => openWindow(browser, service.url, { token })
  const chart = (page: Page, title: string) =>
    page.locator('figure', { has: page.getByRole('heading', { name: title, exact: true }) })

  test('one that has ended says what it came to, what it cost, and what was best and worst', async () => {
    const id = await create('learner')
    expect(await untilEnded(id)).toMatchObject({ status: 'succeeded', error: null })
    const { body: metrics } = await service.json<LoopMetrics>(`${LOOPS}/${id}/metrics`)
    const { body: answers } = await service.json<LoopAnswers>(`${LOOPS}/${id}/answers`)
    const window = await open()
    const { context, page, problems } = window
    await page.goto('/ui/')
    await page.getByRole('link', { name: 'Loops', exact: true }).click()
    const row = page.locator('tbody tr', { hasText: 'learner' })
    await row.getByText('3 of 3 steps').waitFor()
    await expectSound(window, 'loops')
    await row.getByRole('link', { name: 'learner', exact: true }).click()
    await page.getByRole('heading', { name: 'Loop of learner' }).waitFor()

    // both rewards in one chart, by words and points; a line a grader; length, and time by phase
    const reward = chart(page, 'Reward').getByRole('slider')
    const said = (await reward.getAttribute('aria-label')) ?? ''
    expect(said).toMatch(/training .* held out /)
    expect(await reward.getAttribute('aria-valuemax')).toBe('3')
    for (const title of ['Graders, training', 'Graders, held out']) {
      const lines = chart(page, title).locator('.legend-of-lines')
      await lines.getByText('holds').waitFor()
      await lines.getByText('judge').waitFor()
    }
    await chart(page, 'Length of answers, tokens').waitFor()
    await chart(page, 'Seconds by phase').waitFor()

    // tokens of the judge, of the limit, and money once there are prices
    const used = page.getByRole('region', { name: 'Used' })
    await used.getByText('of 5,000,000').waitFor()
    const judge = used.locator('tbody tr', { hasText: 'trainyard/tiny-random' })
    const tokens = metrics.totals['tokens/trainyard/tiny-random/prompt'] ?? 0
    expect(tokens).toBeGreaterThan(0)
    await judge.getByText(tokens.toLocaleString('en')).waitFor()
    await judge.getByLabel('tokens of prompts').fill('1000000')
    await judge.getByLabel('tokens of answers').fill('0')
    await judge.getByLabel('tokens of answers').blur()
    await judge.locator('td[data-label=Cost]', { hasText: tokens.toLocaleString('en') }).waitFor()
    await page.reload()
    await judge.locator('td[data-label=Cost]', { hasText: tokens.toLocaleString('en') }).waitFor()

    // each with what its graders gave it
    const best = page.getByRole('region', { name: 'Best answers' }).locator('li')
    expect(await best.count()).toBe(answers.best.length)
    await best
      .first()
      .getByText(/holds [01] · judge /)
      .waitFor()
    await expectSound(window, 'loop')

    // a step leads to its job, a point of the chart too
    await page.getByRole('region', { name: 'Steps and jobs of the loop' }).getByRole('link', { name: '2' }).click()
    await page.waitForURL(`**/ui/jobs/${metrics.job_ids[2]}`)
    await page.goBack()
    await reward.focus()
    await page.keyboard.press('Home')
    await page.keyboard.press('ArrowRight')
    await page.keyboard.press('Enter')
    await page.waitForURL(`**/ui/jobs/${metrics.job_ids[1]}`)
    expect(await problems()).toEqual([])
    await context.close()
  })

  test('one that runs is followed, paused, resumed and cancelled by buttons', async () => {
    const id = await create('running', { steps: 400, evaluate_every: 100 })
    const { context, page, problems } = await open()
    await page.goto(`/ui/loops/${id}`)
    await page.locator('.live', { hasText: /^live$/ }).waitFor()
    await page.locator('.phases [aria-current=step]').first().waitFor()
    // whichever it is at: several may pass between two questions of the page
    await page.getByText(/[1-9]\d* of 400 steps/).waitFor()
    await chart(page, 'Reward').waitFor()
    await page.getByRole('button', { name: 'Pause' }).click()
    await page.locator('.title .status.paused').waitFor()
    expect((await get(id)).status).toBe('paused')
    await page.getByRole('button', { name: 'Resume' }).click()
    await page.locator('.title .status.running').waitFor()
    await page.getByRole('button', { name: 'Cancel' }).click()
    const question = page.getByRole('dialog', { name: 'Cancel this loop of running?' })
    await question.getByRole('button', { name: 'Cancel the loop' }).click()
    await page.locator('.title .status.cancelled').waitFor()
    expect(await page.getByRole('button', { name: 'Pause' }).count()).toBe(0)
    await page.getByRole('region', { name: 'Log' }).last().getByText('Loop cancelled').waitFor()
    expect(await problems()).toEqual([])
    await context.close()
  })

  test('a grader is written, told where it is wrong, and tried on a row of a file and on a loop’s answer', async () => {
    const loop = (await service.json<{ data: Loop[] }>(`${LOOPS}?limit=100`)).body.data.at(-1)
    const window = await open()
    const { context, page, problems } = window
    await page.goto('/ui/')
    await page.getByRole('link', { name: 'Graders', exact: true }).click()
    const grader = page.getByLabel('The grader', { exact: true })
    const wrong = { ...GRADER, graders: { holds: { ...GRADER.graders.holds, operation: 'sounds like' } } }
    await grader.fill('{ "type": ')
    expect(await page.getByRole('button', { name: 'Check the grader alone' }).isDisabled()).toBe(true)
    await grader.fill(JSON.stringify({ ...wrong, calculate_output: 'holds' }, null, 2))
    await page.getByRole('button', { name: 'Check the grader alone' }).click()
    await page.getByText(/^graders\.holds\.operation: /).waitFor()
    await page.getByRole('button', { name: 'show it' }).click()
    const chosen =
      '(() => { const e = document.activeElement; return e.value.slice(e.selectionStart, e.selectionEnd) })()'
    expect(await page.evaluate(chosen)).toBe('"operation"')
    expect(withoutRefusals(await problems())).toEqual([])
    await expectSound(window, 'graders-wrong')

    await grader.fill(JSON.stringify(GRADER.graders.holds))
    await page.getByRole('button', { name: 'Check the grader alone' }).click()
    await page.getByText('It is a grader.').waitFor()
    await page.getByLabel('File', { exact: true }).selectOption({ label: 'prompts.jsonl' })
    await page.getByRole('button', { name: 'Say o, 3.' }).click()
    expect(JSON.parse(await page.getByLabel('The row, as item').inputValue())).toEqual(ROWS[3])
    await page.getByLabel('The answer').fill(`no ${HOSTILE}`)
    await page.getByRole('button', { name: 'Score it' }).click()
    const score = page.getByRole('status', { name: 'Score' })
    await score.locator('.score', { hasText: /^1$/ }).waitFor()
    await page.getByLabel('The answer').fill('yes')
    await page.getByRole('button', { name: 'Score it' }).click()
    await score.locator('.score', { hasText: /^0$/ }).waitFor()
    await page.getByLabel('The row, as item').fill('{}')
    await page.getByRole('button', { name: 'Score it' }).click()
    await score.getByText(/holds: invalid variable error/).waitFor()
    await expectSound(window, 'graders')

    // from the loop's page: its grader, its rows, and the answer that was chosen
    await page.goto(`/ui/loops/${loop?.id}`)
    await page.getByRole('region', { name: 'Best answers' }).getByRole('link', { name: 'try it' }).first().click()
    await page.waitForURL(/\/ui\/graders\?loop=/)
    await until(async () => (await grader.inputValue()).includes('calculate_output') || null, 'the grader of the loop')
    const { body: answers } = await service.json<LoopAnswers>(`${LOOPS}/${loop?.id}/answers`)
    expect(await page.getByLabel('The answer').inputValue()).toBe(answers.best[0]?.answer.replaceAll('\r\n', '\n'))
    await page.getByRole('button', { name: 'Say e, 0.' }).waitFor()
    expect(withoutRefusals(await problems())).toEqual([])
    await context.close()
  })
})

/** What a server refuses the browser's console names, too. */
function withoutRefusals(found: readonly string[]): readonly string[] {
  return found.filter((text) => !/status of 4\d\d/.test(text))
}
