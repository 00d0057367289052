/**
 * Light, dark, or as the system has it. The style sheet follows the element's `data-theme`; canvases ask for colours as they are shown.
 */
import { signal } from '@preact/signals'

const NAME = 'trainyard.theme'
export const THEMES = ['system', 'light', 'dark'] as const
export type Theme = (typeof THEMES)[number]

const stored = localStorage.getItem(NAME)
export const theme = signal<Theme>(THEMES.find((name) => name === stored) ?? 'system')
/** Counts changes of how things look: what is drawn by hand is drawn again. */
export const look = signal(0)

export function chooseTheme(name: Theme): void {
  theme.value = name
  localStorage.setItem(NAME, name)
  applyTheme()
}

export function applyTheme(): void {
  document.documentElement.dataset['theme'] = theme.value
  look.value += 1
}

export function watchSystemTheme(): void {
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
    look.value += 1
  })
}

/** A colour of the style sheet as it is shown now. @param name as `--accent` */
export function colourOf(name: string): string {
  const probe = document.createElement('span')
  probe.style.color = `var(${name})`
  document.body.append(probe)
  const { color } = getComputedStyle(probe)
  probe.remove()
  return color
}
