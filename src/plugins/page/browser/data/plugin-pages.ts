/**
 * Views of plugins: which there are says the shell, and their modules are loaded when they are opened.
 */
import type { PluginModule, PluginPage } from '#contract/wire/plugin-page.js'
import { ASSETS_URL } from './address.js'

/** Of the shell's `meta`, which the server wrote. */
export function readPluginPages(): readonly PluginPage[] {
  const written = document.querySelector('meta[name="trainyard-plugins"]')?.getAttribute('content') ?? '[]'
  return JSON.parse(written) as readonly PluginPage[]
}

/** @throws whatever its module throws; {Error} where it exports no `mount` */
export async function loadPluginModule({ module }: PluginPage): Promise<PluginModule<HTMLElement>> {
  const loaded = (await import(new URL(module, ASSETS_URL).href)) as Partial<PluginModule<HTMLElement>>
  if (typeof loaded.mount !== 'function') throw new Error('its module exports no function "mount"')
  return { mount: loaded.mount }
}
