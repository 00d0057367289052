/**
 * What every state of a page owes whoever sees it: in both themes, wide and narrow, nothing is wider than the window, axe finds no fault,
 * and the browser has nothing to complain of. With `UI_SHOTS=<folder>` each is kept as a picture, to be looked at.
 */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { expect } from 'vitest'
import type { Watched } from './browser.js'

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const WIDTHS = [1280, 1920, 390, 360] as const
/** Where axe looks: what has another colour has it at every width, what is laid out otherwise is so in both themes. */
const LOOKED_AT = { dark: [1280], light: [1280, 390] } as const satisfies Readonly<Record<string, readonly number[]>>

/** Faults of WCAG 2.1 A and AA, as `rule: element`. */
export async function faultsOf(page: Page): Promise<readonly string[]> {
  await page.evaluate(AXE)
  return await page.evaluate<string[]>(`(async () => {
    const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa']
    const { violations } = await axe.run(document, { runOnly: { type: 'tag', values: tags } })
    return violations.flatMap(({ id, nodes }) =>
      nodes.map(({ html, failureSummary }) => id + ': ' + html + ' ' + failureSummary))
  })()`)
}

/** Of what the browser complained of behind `faultsOf`, what is the page's. */
export function withoutAxe(found: readonly string[]): readonly string[] {
  // axe is evaluated as text, which on a busy machine the page's policy may name
  return found.filter((text) => !/TrustedScript|trusted-types-sink/.test(text))
}

/** Looks at the page as it is now in both themes and every width. The window is wide and light when it is done. */
export async function expectSound({ page, problems }: Watched, name: string): Promise<void> {
  expect(await problems(), name).toEqual([])
  for (const theme of ['dark', 'light'] as const) {
    await page.emulateMedia({ colorScheme: theme })
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 900 })
      const where = `${name}, ${theme}, ${width} wide`
      const overflow = await page.evaluate<number>(
        'document.documentElement.scrollWidth - document.documentElement.clientWidth',
      )
      expect(overflow, `${where} is wider than its window`).toBe(0)
      if (LOOKED_AT[theme].some((each) => each === width)) expect(await faultsOf(page), where).toEqual([])
      const folder = process.env['UI_SHOTS']
      if (folder !== undefined)
        await page.screenshot({ path: join(folder, `${name}-${theme}-${width}.png`), fullPage: true })
    }
  }
  await page.setViewportSize({ width: WIDTHS[0], height: 900 })
  expect(await page.title(), name).toMatch(/ · Trainyard$/)
  expect(await page.locator('h1').count(), name).toBe(1)
  expect(withoutAxe(await problems()), name).toEqual([])
}
