/**
 * What surrounds every page: the way to the others, who is signed in, the theme.
 */
import type { ComponentChildren, JSX, RefObject } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { go, hrefOf, route, views } from '../data/address.js'
import { apiUrl } from '../data/client.js'
import { sectionsOf } from '../data/match.js'
import { credential, identity } from '../data/session.js'
import { signOut } from '../data/sign-in.js'
import { chooseKeys, hasKeys, Keys } from './keys.js'
import { chooseTheme, THEMES, theme } from './theme.js'

/** Text that travels unencrypted is the sender's to know. */
const isOpenToOthers = location.protocol === 'http:' && !/^(localhost|127(\.\d+){3}|\[::1\])$/.test(location.hostname)

/** The way to where one is, on a phone whose row of ways is longer than its window. */
export function useCurrentInView<Row extends HTMLElement>(current: unknown): RefObject<Row | null> {
  const row = useRef<Row>(null)
  useEffect(() => {
    const link = row.current?.querySelector<HTMLElement>('[aria-current]')
    if (row.current == null || link == null) return
    const [ends, own] = [row.current.getBoundingClientRect(), link.getBoundingClientRect()]
    row.current.scrollLeft += own.left + own.width / 2 - ends.left - ends.width / 2
  }, [current])
  return row
}

export function Layout({ children }: { readonly children: ComponentChildren }): JSX.Element {
  const nav = useCurrentInView<HTMLElement>(route.value.view?.section)
  return (
    <>
      <a class="skip" href="#content">
        Skip to the content
      </a>
      <header class="top">
        <a class="brand" href={hrefOf('/')}>
          <span class="mark" aria-hidden="true" />
          Trainyard
        </a>
        <nav aria-label="Pages" ref={nav}>
          <ul>
            {sectionsOf(views.value).map(({ path, title }) => (
              <li key={path}>
                <a href={hrefOf(path)} aria-current={route.value.view?.section === title ? 'page' : undefined}>
                  {title}
                </a>
              </li>
            ))}
          </ul>
        </nav>
        <Account />
      </header>
      {isOpenToOthers && (
        <p class="banner">The key travels in the clear: put TLS in front of a server that others can reach.</p>
      )}
      <main id="content" tabIndex={-1}>
        {children}
      </main>
      <Keys />
    </>
  )
}

function Account(): JSX.Element {
  const menu = useRef<HTMLDetailsElement>(null)
  const who = identity.value
  useEffect(() => {
    // a menu ends with the next click, and with Escape
    const close = (event: Event): void => {
      if (menu.current === null || !menu.current.open) return
      if (event instanceof KeyboardEvent && event.key !== 'Escape') return
      if (event.type === 'click' && event.target instanceof Node && menu.current.contains(event.target)) return
      menu.current.open = false
    }
    document.addEventListener('click', close)
    document.addEventListener('keydown', close)
    return () => {
      document.removeEventListener('click', close)
      document.removeEventListener('keydown', close)
    }
  }, [])
  return (
    <details class="account" ref={menu}>
      <summary>
        {who === null ? 'Menu' : who.entity}
        {who?.scope !== undefined && <span class="soft"> {who.scope}</span>}
      </summary>
      <div class="menu">
        {who !== null && (
          <p class="soft small">
            Key <code>{who.key_prefix}…</code> of {who.entity}
            {who.project == null ? '' : `, project ${who.project}`}
            <br />
            Trainyard {who.version}
          </p>
        )}
        <fieldset class="themes">
          <legend>Theme</legend>
          {THEMES.map((name) => (
            <label key={name}>
              <input type="radio" name="theme" checked={theme.value === name} onChange={() => chooseTheme(name)} />
              {name}
            </label>
          ))}
        </fieldset>
        <label class="row">
          <input
            type="checkbox"
            checked={hasKeys.value}
            onChange={(event) => chooseKeys(event.currentTarget.checked)}
          />
          Single-letter keys
        </label>
        <a href={apiUrl('/docs')}>Documentation</a>
        {credential.value !== null && (
          <button
            type="button"
            onClick={() => {
              void signOut()
              go('/sign-in')
            }}
          >
            Sign out
          </button>
        )}
      </div>
    </details>
  )
}

/** The title of a page, for the tab and as its heading. */
export function Title(props: {
  readonly text: string
  /** For the tab, where it is not the heading. */
  readonly tab?: string
  readonly children?: ComponentChildren
}): JSX.Element {
  useEffect(() => {
    document.title = `${props.tab ?? props.text} · Trainyard`
  }, [props.tab, props.text])
  return (
    <div class="title">
      <h1>{props.text}</h1>
      {props.children}
    </div>
  )
}
