/**
 * Views by their addresses. Pure: knows no browser, and no view.
 */

/** Where a view of the page is. */
export interface ViewAddress {
  /** Its address below the page's folder; `:name` is one part of the path. */
  readonly pattern: string
  /** The entry of the navigation that it stands under; null: none. */
  readonly section: string | null
}

export interface Route<V extends ViewAddress = ViewAddress> {
  /** Null: the address shows nothing. */
  readonly view: V | null
  readonly params: Readonly<Record<string, string>>
}

/** @param path below the page's folder, without a slash at its end */
export function matchRoute<V extends ViewAddress>(path: string, views: readonly V[]): Route<V> {
  const given = path.split('/')
  for (const view of views) {
    const parts = view.pattern.split('/')
    if (parts.length !== given.length) continue
    const params: Record<string, string> = {}
    const fits = parts.every((part, i) => {
      const value = decode(given[i] ?? '')
      if (!part.startsWith(':')) return part === value
      params[part.slice(1)] = value
      return value !== ''
    })
    if (fits) return { view, params }
  }
  return { view: null, params: {} }
}

/** The entries of the navigation, in the order of the views: each leads to the first of its views that needs no more words. */
export function sectionsOf(
  views: readonly ViewAddress[],
): readonly { readonly title: string; readonly path: string }[] {
  const paths = new Map<string, string>()
  for (const { pattern, section } of views) {
    if (section !== null && !paths.has(section) && !pattern.includes(':')) paths.set(section, pattern)
  }
  return [...paths].map(([title, path]) => ({ title, path }))
}

/** The address of a model's page, and of one below it. */
export function modelPath(model: { readonly project: string; readonly name: string }, below = ''): string {
  return `/models/${encodeURIComponent(model.project)}/${encodeURIComponent(model.name)}${below}`
}

/** A part of a path as text; one that is no percent-code stays as it is. */
function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
