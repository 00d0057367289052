/**
 * Markdown that a model wrote, as a fixed set of elements. marked's lexer reads it and nothing of it becomes markup by itself: HTML is text,
 * pictures are their description, links go to http and https alone and show their host.
 */
import { Lexer, type Token, type Tokens } from 'marked'
import type { ComponentChildren, JSX } from 'preact'
import { useMemo } from 'preact/hooks'

export function Markdown({ text }: { readonly text: string }): JSX.Element {
  const tokens = useMemo(() => read(text), [text])
  return <div class="markdown">{tokens === null ? <p class="raw">{text}</p> : blocks(tokens)}</div>
}

/** Null for what is nested so deeply that it cannot be read. */
function read(text: string): readonly Token[] | null {
  try {
    return Lexer.lex(text)
  } catch {
    return null
  }
}

/** The nesting that is drawn; what is deeper is text. */
const DEEPEST = 12

function blocks(tokens: readonly Token[], depth = 0): ComponentChildren {
  return tokens.map((token, i) => <Piece key={i} token={token} depth={depth} />)
}

function Piece({ token, depth }: { readonly token: Token; readonly depth: number }): JSX.Element | null {
  if (depth > DEEPEST) return <>{token.raw}</>
  const inner = 'tokens' in token && token.tokens !== undefined ? blocks(token.tokens, depth + 1) : null
  switch (token.type) {
    case 'space':
      return null
    case 'heading':
      // the headings of the page are its own
      return (
        <p>
          <strong>{inner}</strong>
        </p>
      )
    case 'paragraph':
      return <p>{inner}</p>
    case 'strong':
      return <strong>{inner}</strong>
    case 'em':
      return <em>{inner}</em>
    case 'del':
      return <del>{inner}</del>
    case 'br':
      return <br />
    case 'hr':
      return <hr />
    case 'code':
      return (
        <pre>
          <code>{(token as Tokens.Code).text}</code>
        </pre>
      )
    case 'codespan':
      return <code>{(token as Tokens.Codespan).text}</code>
    case 'blockquote':
      return <blockquote>{inner}</blockquote>
    case 'list': {
      const { ordered, start, items } = token as Tokens.List
      const rows = items.map((item, i) => <li key={i}>{blocks(item.tokens, depth + 1)}</li>)
      return ordered ? <ol start={typeof start === 'number' ? start : 1}>{rows}</ol> : <ul>{rows}</ul>
    }
    case 'table':
      return <Grid table={token as Tokens.Table} depth={depth} />
    case 'link':
      return <Link link={token as Tokens.Link}>{inner}</Link>
    case 'image':
      return <>[image: {(token as Tokens.Image).text}]</>
    case 'text':
    case 'escape':
      return <>{inner ?? (token as Tokens.Text).text}</>
    default:
      return <>{token.raw}</>
  }
}

function Link(props: { readonly link: Tokens.Link; readonly children: ComponentChildren }): JSX.Element {
  const url = URL.canParse(props.link.href) ? new URL(props.link.href) : null
  if (url === null || (url.protocol !== 'https:' && url.protocol !== 'http:')) return <>{props.link.raw}</>
  return (
    <>
      <a href={url.href} target="_blank" rel="noopener noreferrer">
        {props.children}
      </a>{' '}
      <span class="soft">({url.host})</span>
    </>
  )
}

function Grid({ table, depth }: { readonly table: Tokens.Table; readonly depth: number }): JSX.Element {
  return (
    <div class="table">
      <table>
        <thead>
          <tr>
            {table.header.map((cell, i) => (
              <th scope="col" key={i}>
                {blocks(cell.tokens, depth + 1)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {table.rows.map((row, i) => (
            <tr key={i}>
              {row.map((cell, n) => (
                <td key={n}>{blocks(cell.tokens, depth + 1)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
