/**
 * Views of plugins on the web page: how the page is told of them, and what their modules export and are given.
 */

/** A view that is a module of a plugin, as the shell of the page names it. */
export interface PluginPage {
  readonly plugin: string
  /** Its address below the page's folder, as `/x/reward`. */
  readonly pattern: string
  /** Its entry of the navigation, and its heading. */
  readonly section: string
  /** Name of its module among the scripts of the page. */
  readonly module: string
}

/** What a module's `mount` is given beside its element. */
export interface PluginView {
  /** Asks the API, signed in as who reads the page: JSON in and out. It throws an error with what the server says. */
  api(path: string, options?: { readonly method?: string; readonly json?: unknown }): Promise<unknown>
  /** Goes to an address of the page, as `/jobs`. */
  navigate(path: string): void
  /** Parts of the address that the pattern names. */
  readonly params: Readonly<Record<string, string>>
  readonly query: URLSearchParams
  /** Aborted when the reader leaves. */
  readonly signal: AbortSignal
}

/** How what a view began is ended, where it began something. */
type End = (() => void) | undefined

/** What such a module exports. `E`: HTMLElement, which only browsers have. */
export interface PluginModule<E = unknown> {
  /** Draws into an empty element, each time that the view is opened. What it throws is shown in its place. */
  mount(element: E, view: PluginView): End | Promise<End>
}
