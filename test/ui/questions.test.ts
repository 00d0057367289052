/**
 * What a newcomer asks, each answered in at most three clicks from the start page; eight questions that training is about, each with the clicks it
 * may take from where it is asked; and what a block says while the server is slow, busy or broken.
 */
import type { Browser, Locator, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { loggedGroups } from '../support/log-answers.js'
import { createTestService, sampleGroup, type TestService } from '../support/service/create-test-service.js'
import { CHROMIUM, launchBrowser, openWindow } from './browser.js'

const MOST_CLICKS = 3
const ROW = JSON.stringify({
  messages: [
    { role: 'user', content: 'Is it warm?' },
    { role: 'assistant', content: 'yes' },
  ],
})

const WEIGHTED = JSON.stringify({
  weight: 2.5,
  messages: [
    { role: 'system', content: 'Be brief' },
    { role: 'user', content: 'Is it cold?' },
    { role: 'assistant', content: 'no' },
  ],
})
const PAIR = JSON.stringify({ prompt: 'Is it late?', chosen: 'yes, it is', rejected: 'who knows' })

let service: TestService
let browser: Browser
let token: string
let running: string
const open = () => openWindow(browser, `http://127.0.0.1:${new URL(service.url).port}`, { token })

async function evaluate(id: string, text: string, reward: number): Promise<void> {
  const groups = loggedGroups([
    { asked: 'Is it late?', answers: [[text, reward]] },
    { asked: 'Is it early?', answers: [['no', 0.5]] },
  ])
  const { status } = await service.json(`/v1/preview/models/${id}/log`, {
    json: { split: 'val', trajectory_groups: groups },
  })
  expect(status).toBe(200)
}

/** @returns the job's id */
async function train(kind: 'sft' | 'dpo', name: string, rows: readonly string[], config: object): Promise<string> {
  const { status, body } = await service.json<{ id: string }>(`/v1/preview/${kind}-training-jobs`, {
    json: {
      model_id: await service.createModel(name),
      training_data_url: `data:application/jsonl;base64,${Buffer.from(rows.join('\n')).toString('base64')}`,
      config,
    },
  })
  expect(status).toBeLessThan(300)
  return body.id
}

describe.skipIf(CHROMIUM === null)('a newcomer', () => {
  beforeAll(async () => {
    service = await createTestService({ scripted: false })
    browser = await launchBrowser()
    token = (await service.json<{ token: string }>('/v1/preview/sessions', { json: { name: 'test' } })).body.token
    const id = await service.createModel('learner')
    await evaluate(id, 'maybe', 0)
    const job = await service.json<{ id: string }>('/v1/preview/training-jobs', {
      json: { model_id: id, trajectory_groups: [sampleGroup()], experimental_config: { learning_rate: 1e-3 } },
    })
    expect((await service.waitForJob(job.body.id)).status).toBe('completed')
    await evaluate(id, 'yes, it is', 1)
    const examples = await train('sft', 'examples', [ROW, WEIGHTED], { epochs: 1 })
    expect((await service.waitForJob(examples)).status).toBe('completed')
    const preferences = await train('dpo', 'preferences', [PAIR], { epochs: 1 })
    expect((await service.waitForJob(preferences)).status).toBe('completed')
    const gone = await train('sft', 'forgotten', [ROW], { epochs: 1 })
    expect((await service.waitForJob(gone)).status).toBe('completed')
    await service.fetch(`/v1/preview/training-jobs/${gone}/data`, { method: 'DELETE' })
    running = await train('sft', 'busy', Array(64).fill(ROW), { epochs: 1000, batch_size: 1 })
  })
  afterAll(async () => {
    if (running !== undefined) await service.fetch(`/v1/preview/training-jobs/${running}/cancel`, { method: 'POST' })
    await browser?.close()
    await service?.dispose()
  })

  type Position = { readonly x: number; readonly y: number }
  type Ask = (click: (target: Locator, position?: Position) => Promise<void>, page: Page) => Promise<void>
  const link = (page: Page, name: string) => page.getByRole('link', { name, exact: true }).first()
  const questions: readonly (readonly [string, Ask])[] = [
    ['is anything running', async (_, page) => page.locator('.job-line', { hasText: 'busy' }).waitFor()],
    [
      'is it learning',
      async (click, page) => {
        await click(link(page, 'learner'))
        await page.locator('.verdict', { hasText: 'at step 1' }).waitFor()
      },
    ],
    [
      'what did it say at a step, with which reward',
      async (click, page) => {
        await click(link(page, 'learner'))
        await click(link(page, 'Evaluations'))
        await page.locator('.side', { hasText: 'step 1 · reward 1' }).getByText('yes, it is').waitFor()
      },
    ],
    [
      'did the newest step beat the base model',
      async (click, page) => {
        await click(link(page, 'learner'))
        await click(link(page, 'Evaluations'))
        await page.getByText('difference 0.5').waitFor()
      },
    ],
    [
      'what was the job configured with, defaults included',
      async (click, page) => {
        await click(link(page, 'learner'))
        await click(link(page, '1'))
        const options = page.locator('details', { has: page.getByRole('heading', { name: 'Options' }) })
        await options.waitFor()
        if ((await options.getAttribute('open')) === null) await click(options.locator('summary'))
        await options.locator('div', { hasText: 'learning_rate' }).getByText('set', { exact: true }).first().waitFor()
        await options.locator('div', { hasText: 'adam_beta1' }).getByText('default', { exact: true }).first().waitFor()
      },
    ],
    [
      'what is in my file',
      async (click, page) => {
        await click(link(page, 'Train'))
        const chooser = page.waitForEvent('filechooser')
        await click(page.locator('.drop'))
        await (await chooser).setFiles({ name: 'mine.jsonl', mimeType: 'text/plain', buffer: Buffer.from(ROW) })
        await click(page.getByRole('button', { name: 'Show the plan' }))
        await page.locator('.spans mark', { hasText: 'yes' }).waitFor()
      },
    ],
    [
      'how does it answer now',
      async (click, page) => {
        await click(link(page, 'learner'))
        await click(link(page, 'Play'))
        await page.locator('#message').fill('Is it warm?')
        await click(page.getByRole('button', { name: 'Send', exact: true }))
        await page.locator('.answer[aria-busy=false]').waitFor()
        await page.getByText('answered by').waitFor()
      },
    ],
    [
      'what does the server hold',
      async (click, page) => {
        await click(link(page, 'Settings'))
        await page.getByText('trainyard/tiny-random').first().waitFor()
      },
    ],
  ]

  const modelPath = (name: string) => `/ui/models/tests/${name}`
  const expectRow = async (rows: Locator, n: number, cells: readonly string[]): Promise<void> => {
    await rows.locator('tbody tr').first().waitFor()
    const found = await rows.locator('tbody tr').nth(n).locator('td').allTextContents()
    expect(found.slice(-cells.length)).toEqual(cells)
  }
  const model = modelPath('learner')
  /** The newest step stands at the right end of a chart. */
  const newest = async (page: Page): Promise<Position> => {
    const box = await page.locator('.u-over').first().boundingBox()
    return { x: (box?.width ?? 0) - 3, y: 20 }
  }
  const panel = (page: Page) => page.locator('.answers-of-step')
  const eight: readonly (readonly [question: string, from: string, clicks: number, Ask])[] = [
    [
      'does it learn',
      model,
      0,
      async (_, page) =>
        page.locator('.verdict .word', { hasText: /^(Learns|Does not learn|Cannot be said yet)$/ }).waitFor(),
    ],
    ['why not', model, 0, async (_, page) => page.locator('.findings li').first().waitFor()],
    [
      'what did it answer at step n',
      model,
      1,
      async (click, page) => {
        await click(page.locator('.u-over').first(), await newest(page))
        await panel(page).locator('.said-here li', { hasText: 'yes' }).first().waitFor()
      },
    ],
    [
      'log-probability, ratio and advantage of a token',
      model,
      2,
      async (click, page) => {
        await click(page.locator('.u-over').first(), await newest(page))
        await click(panel(page).locator('.said-here a').first())
        const detail = page.getByRole('region', { name: 'The chosen token' })
        for (const name of ['Learner', 'Ratio', 'Advantage']) await detail.getByText(name, { exact: true }).waitFor()
      },
    ],
    [
      'this run against that',
      '/ui/',
      2,
      async (click, page) => {
        await click(page.getByLabel('Choose learner'))
        await click(page.getByRole('link', { name: 'compare busy with learner' }))
        await page
          .getByRole('region', { name: 'Options of the newest jobs' })
          .getByText('kind', { exact: true })
          .waitFor()
      },
    ],
    [
      'what did a step train on',
      model,
      1,
      async (click, page) => {
        await click(panel(page).getByRole('link', { name: /^All 1 group/ }))
        await page.getByRole('heading', { name: 'Rollouts' }).waitFor()
        await page.locator('.group-name').first().waitFor()
      },
    ],
    [
      'what did a job by examples train on',
      modelPath('examples'),
      2,
      async (click, page) => {
        await click(link(page, '1'))
        const rows = page.getByRole('region', { name: 'What it trained on' })
        await expectRow(rows, 1, ['system: Be brief\nuser: Is it cold?', 'no', '–', '2.5'])
        await click(rows.getByRole('button', { name: 'Count the tokens that train' }))
        await rows.locator('.spans mark', { hasText: 'yes' }).first().waitFor()
        expect(await rows.locator('tbody tr').nth(0).locator('td').nth(2).textContent()).toMatch(/^[1-9]\d*$/)
      },
    ],
    [
      'what did a job by preferences train on',
      modelPath('preferences'),
      2,
      async (click, page) => {
        await click(link(page, '1'))
        const rows = page.getByRole('region', { name: 'What it trained on' })
        await expectRow(rows, 0, ['Is it late?', 'yes, it is', 'who knows', '–', '1'])
        await click(rows.getByRole('button', { name: 'Count the tokens that train' }))
        await rows.locator('.spans mark', { hasText: 'who knows' }).waitFor({ state: 'attached' })
        expect(await rows.locator('tbody tr').nth(0).locator('td').nth(3).textContent()).toMatch(/^\d+ \+ \d+$/)
      },
    ],
    [
      'what did a job train on whose rows are gone',
      modelPath('forgotten'),
      1,
      async (click, page) => {
        await click(link(page, '1'))
        await page.getByRole('region', { name: 'What it trained on' }).getByText('not kept any more').waitFor()
      },
    ],
    [
      'is a step better than another on the same prompts',
      model,
      1,
      async (click, page) => {
        await click(link(page, 'Evaluations'))
        await page.getByText('difference 0.5').waitFor()
      },
    ],
    [
      'stop it and keep it',
      '/ui/',
      2,
      async (click, page) => {
        await click(page.locator('.job-line', { hasText: 'busy' }).getByRole('link'))
        await click(page.getByRole('button', { name: 'Stop and keep' }))
        await page.locator('.status.completed').waitFor()
      },
    ],
  ]

  test.each(questions)('%s', async (_, answer) => {
    const { context, page, problems } = await open()
    await page.goto('/ui/')
    await page.getByRole('link', { name: 'learner' }).first().waitFor()
    let clicks = 0
    await answer(async (target) => {
      clicks += 1
      await target.click()
    }, page)
    expect(clicks).toBeLessThanOrEqual(MOST_CLICKS)
    expect(await problems()).toEqual([])
    await context.close()
  })

  test.each(eight)('%s: from %s in %i', async (_, from, most, answer) => {
    const { context, page, problems } = await open()
    await page.goto(from)
    // what is asked about stands there
    if (from === model) await page.locator('.findings').waitFor()
    else if (from === '/ui/') await page.locator('.job-line', { hasText: 'busy' }).waitFor()
    else await page.locator('#steps').waitFor()
    let clicks = 0
    await answer(async (target, position) => {
      clicks += 1
      await target.click(position === undefined ? {} : { position })
    }, page)
    expect(clicks).toBe(most)
    expect(await problems()).toEqual([])
    await context.close()
  })

  test('an error is said in words of the server and tried again; a busy server is waited for', async () => {
    const { context, page } = await open()
    let answer: { status: number; headers: Record<string, string>; message: string } | null = {
      status: 500,
      headers: {},
      message: 'the disk is full',
    }
    await page.route('**/v1/preview/models?**', async (route) => {
      if (answer === null) return await route.continue()
      const { status, headers, message } = answer
      const body = JSON.stringify({ error: { message, hint: 'make room' }, request_id: 'req_1' })
      await route.fulfill({ status, headers, contentType: 'application/json', body })
    })
    await page.goto('/ui/')
    const alert = page.getByRole('alert').filter({ hasText: 'the disk is full' })
    await alert.getByText('make room').waitFor()
    await alert.getByText('req_1').waitFor()
    answer = { status: 429, headers: { 'retry-after': '30' }, message: 'too many requests' }
    await alert.getByRole('button', { name: 'Try again' }).click()
    const busy = page.getByRole('alert').filter({ hasText: 'too many requests' })
    await busy.getByRole('button', { name: /^Try again in \d+ s$/ }).waitFor()
    expect(await busy.getByRole('button', { name: /^Try again/ }).isDisabled()).toBe(true)
    answer = null
    await page.reload()
    await page.getByRole('link', { name: 'learner' }).first().waitFor()
    await context.close()
  })

  test('what is slow shows the place of what will come', async () => {
    const { context, page } = await open()
    let release = (): void => undefined
    const gate = new Promise<void>((resolve) => {
      release = resolve
    })
    await page.route('**/v1/preview/models?**', async (route) => {
      await gate
      await route.continue()
    })
    await page.goto('/ui/')
    await page.locator('[aria-busy="true"].skeleton').first().waitFor()
    release()
    await page.getByRole('link', { name: 'learner' }).first().waitFor()
    await context.close()
  })
})
