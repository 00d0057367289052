/**
 * The command and the HTTP request that give what a page shows, to copy. The key is a variable, never the key itself.
 */

import type { JSX } from 'preact'
import { command } from '#contract/wire/command-words.js'
import { apiUrl } from '../data/client.js'
import { Command } from './block.js'

/** @param props.cli null: the command line has no command for it */
export function CopyAs(props: { readonly cli: string | null; readonly path: string }): JSX.Element {
  const url = new URL(apiUrl(props.path), location.href).href
  return (
    <details class="copy-as">
      <summary>The same in a terminal</summary>
      <div class="stack">
        {props.cli !== null && <Command text={props.cli} />}
        <Command text={command`curl -H "Authorization: Bearer $TRAINYARD_API_KEY" ${url}`} />
      </div>
    </details>
  )
}
