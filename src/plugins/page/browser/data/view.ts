/**
 * A view of the page, as the table of all has it.
 */
import type { ComponentType } from 'preact'
import type { ViewAddress } from './match.js'

export interface View extends ViewAddress {
  /** Loads it when it is opened; a component that is there already is shown at once. */
  readonly load: (() => Promise<ComponentType>) | { readonly component: ComponentType }
}
