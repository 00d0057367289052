/**
 * Where the page is, and what its addresses mean: paths below `/ui` as signals, links without a load, filters in the query.
 *
 * The server may stand behind a proxy that gives it a folder of its own. The scripts know it by where they came from.
 */
import { computed, signal } from '@preact/signals'
import { matchRoute } from './match.js'
import type { View } from './view.js'

/** Folder of the server with a slash at its end: `/`, or a proxy's `/trainyard/`. */
export const SERVER_PATH = new URL('../../', import.meta.url).pathname
/** Where the scripts of the page lie. */
export const ASSETS_URL = new URL('./', import.meta.url)
/** Folder of the page, without a slash at its end. */
const UI_PATH = `${SERVER_PATH}ui`

/** A reader who scrolls has stopped. */
const STILL_MS = 150
/** Some seconds of waiting for a page to be as long as it was. */
const MOST_FRAMES = 300

interface Place {
  /** Below the page's folder, as `/jobs`. */
  readonly path: string
  readonly query: URLSearchParams
}

function readPlace(): Place {
  const { pathname, search } = location
  const path = pathname.startsWith(UI_PATH) ? pathname.slice(UI_PATH.length).replace(/\/+$/, '') : ''
  return { path: path === '' ? '/' : path, query: new URLSearchParams(search) }
}

const current = signal<Place>(readPlace())

/** Below the page's folder, without the query. */
export const path = computed(() => current.value.path)
/** Every view of the page, in the order of the navigation. */
export const views = signal<readonly View[]>([])
/** What the address means. */
export const route = computed(() => matchRoute(current.value.path, views.value))
export const query = computed(() => current.value.query)
/** Path and query below the page's folder. */
export const here = computed(() => current.value.path + searchOf(current.value.query))

/** The address of a page, for a link. @param path as `/jobs` */
export function hrefOf(path: string): string {
  return UI_PATH + path
}

/** Goes to a page of ours. */
export function go(path: string, options: { readonly replaces?: boolean } = {}): void {
  const before = current.value.path
  if (options.replaces === true) history.replaceState(history.state, '', hrefOf(path))
  else {
    keepPlace()
    history.pushState(null, '', hrefOf(path))
  }
  current.value = readPlace()
  if (current.value.path === before) return
  scrollTo(0, 0)
  // who reads by keyboard or by ear begins where the new page does
  document.getElementById('content')?.focus()
}

/** Changes the query in place; null takes a name out. */
export function setQuery(changes: Readonly<Record<string, string | readonly string[] | null>>): void {
  const next = new URLSearchParams(current.value.query)
  for (const [name, value] of Object.entries(changes)) {
    next.delete(name)
    for (const text of value === null ? [] : [value].flat()) next.append(name, text)
  }
  go(current.value.path + searchOf(next), { replaces: true })
}

function keepPlace(): void {
  history.replaceState({ y: scrollY }, '')
}

/** Goes to where the reader was, as soon as the page is that long; a reader who goes elsewhere is left alone. */
function backToPlace(): void {
  const { y = 0 } = (history.state ?? {}) as { readonly y?: number }
  let left = MOST_FRAMES
  const leave = (): void => {
    left = 0
  }
  const events = ['wheel', 'touchstart', 'keydown', 'pointerdown']
  for (const name of events) addEventListener(name, leave, { once: true, passive: true })
  const look = (): void => {
    left -= 1
    const isLong = document.documentElement.scrollHeight - innerHeight >= y
    if (left >= 0 && isLong) scrollTo({ top: y, behavior: 'instant' })
    if (left > 0 && !isLong) requestAnimationFrame(look)
    else for (const name of events) removeEventListener(name, leave)
  }
  requestAnimationFrame(look)
}

/** Links inside the page change the address without a load; those that a key or a target sends elsewhere are the browser's. */
export function followLinks(): void {
  // what is shown is there later than the browser would go to it
  history.scrollRestoration = 'manual'
  let timer: ReturnType<typeof setTimeout> | undefined
  addEventListener('scroll', () => {
    clearTimeout(timer)
    timer = setTimeout(keepPlace, STILL_MS)
  })
  addEventListener('pagehide', keepPlace)
  addEventListener('popstate', () => {
    clearTimeout(timer)
    current.value = readPlace()
    backToPlace()
  })
  backToPlace()
  document.addEventListener('click', (event) => {
    const link = event.target instanceof Element ? (event.target.closest('a') ?? linkOfRow(event.target)) : null
    const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey
    if (link === null || !isPlain || event.defaultPrevented || link.target !== '' || link.hasAttribute('download'))
      return
    const { origin, pathname, search, hash } = new URL(link.href)
    if (origin !== location.origin || hash !== '' || (pathname !== UI_PATH && !pathname.startsWith(`${UI_PATH}/`)))
      return
    event.preventDefault()
    go(pathname.slice(UI_PATH.length) + search)
  })
}

/** What a row is about, where it was clicked beside everything that does something itself, and no text was chosen in it. */
function linkOfRow(at: Element): HTMLAnchorElement | null {
  if (at.closest('button, input, select, textarea, label, summary, dialog') !== null) return null
  if (getSelection()?.isCollapsed === false) return null
  return at.closest('tbody > tr')?.querySelector<HTMLAnchorElement>('th[scope="row"] a') ?? null
}

function searchOf(query: URLSearchParams): string {
  // a checkpoint's name stays readable: `m=spark:step3`
  const text = query.toString().replaceAll('%3A', ':').replaceAll('%2F', '/')
  return text === '' ? '' : `?${text}`
}
