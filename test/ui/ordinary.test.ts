/**
 * More of what ordinary use met once: a plan that nobody saw, a live job whose zoom and log were drawn anew, a phone's panel
 * over the text it is about, numbers of preferences that had no chart, tabs that forgot where one was; and a model that is
 * noted, tagged and deleted.
 */
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createTestService, type TestService } from '../support/service/create-test-service.js'
import { until } from '../support/until.js'
import { CHROMIUM, launchBrowser, openWindow } from './browser.js'

const PHONE = 390
const PAIRS = ['late', 'early', 'warm', 'cold']
  .map((word) => JSON.stringify({ prompt: `Is it ${word}?`, chosen: 'yes, it is', rejected: 'who knows' }))
  .join('\n')
const ROWS = ['late', 'early', 'warm', 'cold']
  .map((word) =>
    JSON.stringify({
      messages: [
        { role: 'user', content: `Is it ${word}?` },
        { role: 'assistant', content: 'yes' },
      ],
    }),
  )
  .join('\n')

let service: TestService
let browser: Browser
let token: string

async function train(kind: 'sft' | 'dpo', name: string, rows: string, config: object): Promise<string> {
  const { status, body } = await service.json<{ id: string }>(`/v1/preview/${kind}-training-jobs`, {
    json: {
      model_id: await service.createModel(name),
      training_data_url: `data:application/jsonl;base64,${Buffer.from(rows).toString('base64')}`,
      config,
    },
  })
  expect(status, JSON.stringify(body)).toBeLessThan(300)
  return body.id
}

/** A trajectory whose first turns are long and were given, so that what was sampled is far below. */
const groups = [
  {
    trajectories: [0, 1].map((reward) => ({
      reward,
      messages_and_choices: [
        { role: 'system', content: 'You answer briefly. '.repeat(20) },
        { role: 'user', content: 'Is it late?' },
        {
          index: 0,
          finish_reason: 'stop',
          message: { role: 'assistant', content: 'yes' },
          logprobs: {
            content: [121, 101].map((id) => ({ token: `token_id:${id}`, logprob: -1, bytes: [id], top_logprobs: [] })),
          },
        },
      ],
    })),
  },
]

const zoomInto = async (page: Page): Promise<void> => {
  const box = await page.locator('.u-over').first().boundingBox()
  if (box === null) throw new Error('no chart')
  await page.mouse.move(box.x + box.width * 0.2, box.y + 40)
  await page.mouse.down()
  await page.mouse.move(box.x + box.width * 0.6, box.y + 40, { steps: 4 })
  await page.mouse.up()
  await page.waitForURL(/zoom=[\d.]+$/)
}

describe.skipIf(CHROMIUM === null)('the page in ordinary use, trained', () => {
  beforeAll(async () => {
    service = await createTestService({ scripted: false })
    browser = await launchBrowser()
    token = (await service.json<{ token: string }>('/v1/preview/sessions', { json: { name: 'test' } })).body.token
  })
  afterAll(async () => {
    await browser?.close()
    await service?.dispose()
  })
  const open = (width = 1280) => openWindow(browser, service.url, { token, width, hasTouch: width === PHONE })

  test('the plan stands beside its form, where it is read, and only then the job can start', async () => {
    await service.createModel('planned')
    const { context, page, problems } = await open()
    await page.goto('/ui/train?m=tests/planned')
    const buffer = Buffer.from(ROWS)
    await page.locator('input[type=file]').setInputFiles({ name: 'rows.jsonl', mimeType: 'application/jsonl', buffer })
    const start = page.getByRole('button', { name: 'Start the job' })
    await page.getByRole('button', { name: 'Show the plan' }).click()
    const heading = page.getByRole('heading', { name: 'Plan', exact: true })
    await heading.waitFor()
    await until(
      async () => (await page.evaluate('document.activeElement?.textContent')) === 'Plan' || null,
      'the focus',
    )
    const [box, asked] = [await heading.boundingBox(), await page.getByRole('heading', { name: 'Data' }).boundingBox()]
    expect(box?.y).toBeGreaterThan(0)
    expect(box?.y).toBeLessThan(900)
    expect(box?.x, 'beside').toBeGreaterThan((asked?.x ?? 0) + 300)
    expect(await start.isEnabled()).toBe(true)
    expect(await problems()).toEqual([])
    await context.close()
  })

  test('a job that runs keeps the part that was chosen, its charts and the lines of its log', async () => {
    const id = await train('sft', 'busy', ROWS, { epochs: 1000, batch_size: 1 })
    const { context, page, problems } = await open()
    await page.goto(`/ui/jobs/${id}`)
    await page.locator('.log p').nth(3).waitFor()
    await page.locator('canvas').first().waitFor()
    await zoomInto(page)
    const url = page.url()
    // in one go, for lines come all the time
    const before = Number(
      await page.evaluate(`{
        for (const each of document.querySelectorAll('canvas, .log p')) each.isFirst = true
        document.querySelectorAll('.log p').length
      }`),
    )
    await until(async () => (await page.locator('.log p').count()) > before + 3 || null, 'more lines')
    expect(page.url()).toBe(url)
    expect(await page.evaluate('[...document.querySelectorAll("canvas")].every((each) => each.isFirst)')).toBe(true)
    const kept = `[...document.querySelectorAll('.log p')].slice(0, ${before}).every((each) => each.isFirst)`
    expect(await page.evaluate(kept), 'lines that were there').toBe(true)
    expect(await problems()).toEqual([])
    await service.fetch(`/v1/preview/training-jobs/${id}/cancel`, { method: 'POST' })
    await context.close()
  })

  test('a job on preferences draws its margins and accuracies', async () => {
    const id = await train('dpo', 'preferences', PAIRS, { epochs: 2, batch_size: 2 })
    expect((await service.waitForJob(id)).status).toBe('completed')
    const { context, page, problems } = await open()
    await page.goto(`/ui/jobs/${id}`)
    for (const title of ['Loss', 'Margin of rewards', 'Accuracy'])
      await page.getByRole('slider', { name: new RegExp(`^${title} from `) }).waitFor()
    // the last label of the axis is whole: there is room for half of it behind the last point
    const room = `(() => {
      const over = document.querySelector('.u-over').getBoundingClientRect()
      return document.querySelector('.plot').getBoundingClientRect().right - over.right
    })()`
    expect(await page.evaluate<number>(room)).toBeGreaterThanOrEqual(20)
    expect(await problems()).toEqual([])
    await context.close()
  })

  test('on a phone the first token that is shown was sampled, and its numbers cover no text', async () => {
    const { body } = await service.json<{ id: string }>('/v1/preview/training-jobs', {
      json: { model_id: await service.createModel('kept'), trajectory_groups: groups },
    })
    expect((await service.waitForJob(body.id)).status).toBe('completed')
    const { context, page, problems } = await open(PHONE)
    await page.goto(`/ui/jobs/${body.id}/groups/0/1`)
    const panel = page.getByRole('region', { name: 'The chosen token' })
    await panel.getByText('Sampler').waitFor()
    const covered = await page.evaluate<readonly string[]>(`(() => {
      const panel = document.querySelector('.token-detail').getBoundingClientRect()
      return [...document.querySelectorAll('.tokens .token')].filter((each) => {
        const box = each.getBoundingClientRect()
        return box.bottom > panel.top && box.top < panel.bottom
      }).map((each) => each.textContent)
    })()`)
    expect(covered).toEqual([])
    expect(await problems()).toEqual([])
    await context.close()
  })

  test('a model is noted and tagged, its tabs say where one is, and it is deleted', async () => {
    const id = await service.createModel('noted')
    const { context, page, problems } = await open()
    await page.goto('/ui/models/tests/noted')
    await page.getByRole('button', { name: 'Describe and tag it…' }).click()
    const form = page.getByRole('dialog', { name: 'Note on noted' })
    await form.getByLabel('Description').fill('asks back')
    await form.getByLabel('Tags, separated by commas').fill('best')
    await form.getByRole('button', { name: 'Save' }).click()
    await page.locator('.note-of-model .tag', { hasText: 'best' }).waitFor()
    const tabs = page.getByRole('navigation', { name: 'Pages of noted' })
    for (const tab of ['Evaluations', 'Watch', 'Marks', 'Checkpoints', 'Curves']) {
      await tabs.getByRole('link', { name: tab }).click()
      await until(async () => (await tabs.locator('[aria-current=page]').textContent()) === tab || null, tab)
      await page.locator('.note-of-model', { hasText: 'asks back' }).waitFor()
    }
    await page.getByRole('button', { name: 'Remove the model…' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete the model' }).click()
    await page.waitForURL('**/ui/')
    expect((await service.fetch(`/v1/preview/models/${id}`)).status).toBe(404)
    expect(await problems()).toEqual([])
    await context.close()
  })
})
