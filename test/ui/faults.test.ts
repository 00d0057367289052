/**
 * What ordinary use met once: long names, lists that are longer than what is shown, clocks that are wrong, text that turns
 * round, things that are not there. Each is a kind, looked at in every view that could have it.
 */
import type { Browser, Route } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { loggedGroups } from '../support/log-answers.js'
import { createTestService, sampleGroup, type TestService } from '../support/service/create-test-service.js'
import { until } from '../support/until.js'
import { CHROMIUM, launchBrowser, openWindow } from './browser.js'

const LONG_NAME = 'a-model-with-a-name-of-more-than-fifty-letters-in-a-row'
const TURNED = 'abc \u202edef\u202c ghi'
const NOBODY = '0190a5c0-0000-7000-8000-000000000000'

let service: TestService
let browser: Browser
let token: string
let jobId: string

describe.skipIf(CHROMIUM === null)('the page in ordinary use', () => {
  beforeAll(async () => {
    service = await createTestService()
    browser = await launchBrowser()
    token = (await service.json<{ token: string }>('/v1/preview/sessions', { json: { name: 'test' } })).body.token
    const long = await service.createModel(LONG_NAME)
    await service.createModel('other')
    const { body } = await service.json<{ id: string }>('/v1/preview/training-jobs', {
      json: { model_id: long, trajectory_groups: [sampleGroup()], experimental_config: { stand_in: { steps: 2 } } },
    })
    jobId = body.id
    await service.waitForJob(jobId)
    const row = {
      messages: [
        { role: 'user', content: 'Say a' },
        { role: 'assistant', content: 'a' },
      ],
    }
    const path = `/v1/files?purpose=fine-tune&filename=${'rows-of-a-long-name-'.repeat(8)}.jsonl`
    const file = await service.json(path, { method: 'POST', body: JSON.stringify(row) })
    expect(file.status).toBe(200)
  })
  afterAll(async () => {
    await browser?.close()
    await service?.dispose()
  })
  const open = () => openWindow(browser, service.url, { token })

  test('a long name breaks, and splits no number and no word beside it', async () => {
    const { context, page } = await open()
    for (const path of ['/ui/', '/ui/jobs']) {
      await page.goto(path)
      const row = page.locator('tbody tr', { hasText: LONG_NAME })
      await row.waitFor()
      const split = await page.evaluate<readonly string[]>(`[...document.querySelectorAll('tbody tr:first-child td')]
        .filter((cell) => !cell.textContent.includes('${LONG_NAME}'))
        .flatMap((cell) => {
          const found = []
          const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT)
          while (texts.nextNode()) {
            for (const { index, 0: word } of texts.currentNode.data.matchAll(/[^\\s-]+/g)) {
              const range = document.createRange()
              range.setStart(texts.currentNode, index)
              range.setEnd(texts.currentNode, index + word.length)
              if (range.getClientRects().length > 1) found.push(word)
            }
          }
          return found
        })`)
      expect(split, path).toEqual([])
    }
    await context.close()
  })

  test('a choice among long names is no wider than a phone', async () => {
    const { context, page } = await openWindow(browser, service.url, { token, width: 390 })
    for (const path of ['/ui/train', '/ui/train?kind=dpo', '/ui/graders', '/ui/data', '/ui/play', '/ui/compare']) {
      await page.goto(path)
      await page.locator('h1').waitFor()
      if (path.startsWith('/ui/train') || path === '/ui/graders')
        await page.locator('option', { hasText: 'rows-of-a-long-name' }).first().waitFor({ state: 'attached' })
      const over = await page.evaluate<number>(
        'document.documentElement.scrollWidth - document.documentElement.clientWidth',
      )
      expect(over, path).toBe(0)
    }
    await context.close()
  })

  test('the way to where one is stands in the window of a phone', async () => {
    const { context, page } = await openWindow(browser, service.url, { token, width: 390 })
    for (const [path, row] of [
      ['/ui/settings', '.top nav'],
      ['/ui/play', '.top nav'],
      [`/ui/models/tests/${LONG_NAME}/checkpoints`, '.tabs'],
    ] as const) {
      await page.goto(path)
      const link = page.locator(`${row} [aria-current]`)
      await link.waitFor()
      const place = async () => {
        const box = await link.boundingBox()
        return box !== null && box.x >= 0 && box.x + box.width <= 390 ? box : null
      }
      await until(place, `the current way of ${path}`)
    }
    await context.close()
  })

  test('a list that is longer than what is shown says so, wherever it stands', async () => {
    const { context, page } = await open()
    const withMore = async (route: Route): Promise<void> => {
      const response = await route.fetch()
      const text = await response.text()
      await route.fulfill({ response, body: text.replace('"has_more":false', '"has_more":true') })
    }
    // a page that has gone needs no answer
    await page.route('**/v1/**', (route) => withMore(route).catch(() => undefined))
    const { body: active } = await service.json<{ id: string }>('/v1/preview/training-jobs', {
      json: {
        model_id: (await service.json<{ data: { id: string }[] }>('/v1/preview/models?limit=1')).body.data[0]?.id,
        trajectory_groups: [sampleGroup([0.125, 0.5])],
        experimental_config: { stand_in: { steps: 5000, delay_ms: 50 } },
      },
    })
    const upload = new FormData()
    upload.set('purpose', 'fine-tune')
    upload.set(
      'file',
      new Blob(['{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}']),
      'a.jsonl',
    )
    expect((await service.fetch('/v1/files', { method: 'POST', body: upload })).status).toBe(200)
    const lists: readonly (readonly [path: string, list: string, count: number])[] = [
      ['/ui/', '.card:has(.job-line), section[aria-label="All models"]', 2],
      ['/ui/jobs', 'main', 1],
      ['/ui/train?kind=sft', 'main', 2],
      ['/ui/settings', 'main', 2],
      [`/ui/models/tests/${LONG_NAME}/evaluations`, 'main', 0],
    ]
    for (const [path, within, count] of lists) {
      if (count === 0) continue
      await page.goto(path)
      await page
        .locator(within)
        .getByText(/there are more/i)
        .nth(count - 1)
        .waitFor()
    }
    await service.fetch(`/v1/preview/training-jobs/${active.id}/cancel`, { method: 'POST' })
    await context.close()
  })

  test('what is not there is said under a heading', async () => {
    const { context, page } = await open()
    const model = '/ui/models/tests/nobody'
    const job = `/ui/jobs/${NOBODY}`
    for (const path of [
      model,
      ...['checkpoints', 'marks', 'evaluations', 'watch'].map((below) => `${model}/${below}`),
      job,
      `${job}/groups`,
      `${job}/groups/0`,
      `${job}/groups/0/0`,
      `/ui/sessions/${NOBODY}`,
    ]) {
      await page.goto(path)
      await page.getByRole('alert').first().waitFor()
      expect(await page.locator('h1').count(), path).toBe(1)
      expect(await page.title(), path).toMatch(/\S · Trainyard$/)
    }
    await context.close()
  })

  test('a browser whose clock is wrong tells the time of the server', async () => {
    for (const hours of [-2, 2]) {
      const { context, page } = await open()
      await page.addInitScript(`const now = Date.now; Date.now = () => now() + ${hours * 3_600_000}`)
      await page.goto('/ui/jobs')
      const row = page.locator('tbody tr').last()
      await row.waitFor()
      expect(await row.locator('td[data-label=Created]').textContent(), `${hours} hours`).toMatch(/^(now|\d+ min ago)$/)
      await context.close()
    }
  })

  test('a search begins while it is typed; jobs are chosen by kind and by model', async () => {
    const { context, page } = await open()
    await page.goto('/ui/')
    await page.locator('tbody tr').nth(1).waitFor()
    await page.locator('input[type=search]').pressSequentially('fifty')
    await page.locator('tbody tr').nth(1).waitFor({ state: 'detached' })
    await page.getByRole('link', { name: LONG_NAME }).first().waitFor()
    await page.goto('/ui/jobs')
    await page.locator('tbody tr').first().waitFor()
    await page.getByLabel('Kind').selectOption('sft')
    await page.getByText('No job is like this').waitFor()
    await page.goto(`/ui/jobs?m=tests/${LONG_NAME}&kind=rl`)
    await page.locator('tbody tr').first().waitFor()
    await page.goto(`/ui/jobs?m=tests/other`)
    await page
      .getByText(/No job is like this/)
      .or(page.locator('tbody tr'))
      .first()
      .waitFor()
    await context.close()
  })

  test('four columns of Play fit every width, and each says who answered', async () => {
    const { context, page } = await open()
    const columns = ['trainyard/tiny-random', `tests/${LONG_NAME}`, `tests/${LONG_NAME}:step1`, 'trainyard/tiny-random']
    await page.goto(`/ui/play?${columns.map((name) => `m=${name}`).join('&')}`)
    await page.locator('#message').fill(`Hello ${'long'.repeat(30)}`)
    await page.keyboard.press('Control+Enter')
    await page.locator('.answer[aria-busy=false]').nth(3).waitFor()
    await page.getByText(`answered by tests/${LONG_NAME} at step 1`).first().waitFor()
    await page.getByText('answered by the base model trainyard/tiny-random').first().waitFor()
    for (const width of [1920, 1280, 1000, 800, 390]) {
      await page.setViewportSize({ width, height: 900 })
      const wider = await page.evaluate<readonly string[]>(`[...document.querySelectorAll('main *')]
        .filter((each) => each.getBoundingClientRect().right > innerWidth + 1 && !each.closest('.visually-hidden'))
        .map((each) => each.outerHTML.slice(0, 120))`)
      expect(wider, `${width} wide`).toEqual([])
      const spilled = await page.evaluate<
        readonly string[]
      >(`[...document.querySelectorAll('.column')].flatMap((column) =>
        [...column.querySelectorAll('*')]
          .filter((each) => each.getBoundingClientRect().right > column.getBoundingClientRect().right + 1)
          .filter((each) => !each.closest('.visually-hidden'))
          .map((each) => each.outerHTML.slice(0, 120)))`)
      expect(spilled, `${width} wide`).toEqual([])
    }
    await context.close()
  })

  test('an answer without calls is shown without an empty list of them; characters that turn text round are named', async () => {
    const { body: list } = await service.json<{ data: { id: string }[] }>(`/v1/preview/models?name=${LONG_NAME}`)
    const id = list.data[0]?.id ?? ''
    for (const text of ['first', 'second']) {
      const groups = loggedGroups([{ asked: TURNED, answers: [[text, text === 'first' ? 0 : 1]] }])
      const [history] = groups as { trajectories: { messages_and_choices: { message?: object }[] }[] }[]
      for (const item of history?.trajectories[0]?.messages_and_choices ?? []) {
        if (item.message !== undefined) Object.assign(item.message, { tool_calls: [] })
      }
      const { status } = await service.json(`/v1/preview/models/${id}/log`, {
        json: { split: 'val', trajectory_groups: groups },
      })
      expect(status).toBe(200)
      if (text === 'second') break
      const { body } = await service.json<{ id: string }>('/v1/preview/training-jobs', {
        json: { model_id: id, trajectory_groups: [sampleGroup([0.5, 0.75])] },
      })
      await service.waitForJob(body.id)
    }
    const { context, page } = await open()
    await page.goto(`/ui/models/tests/${LONG_NAME}/evaluations`)
    await page.locator('.pairs-list').waitFor()
    expect(await page.locator('.pairs-list').textContent()).toContain('second')
    expect(await page.locator('.pairs-list').textContent()).not.toContain('[]')
    await page.getByText('abc ‹RLO›def‹PDF› ghi').waitFor()
    await context.close()
  })
})
