package sqlitestore

import (
	"container/list"
	sqldriver "database/sql/driver"
)

// maxStatements is how many statements of handlers are kept compiled.
const maxStatements = 64

// statements keeps the handlers' statements that are not in use, so that a
// handler need not compile the same text each time. The one used least
// recently goes first. The writer's mutex guards it.
type statements struct {
	byText map[string]*list.Element // of *idleStatement
	recent list.List                // the latest in front
}

type idleStatement struct {
	text string
	stmt sqldriver.Stmt
}

func newStatements() *statements {
	return &statements{byText: make(map[string]*list.Element)}
}

// take returns the statement of that text, which is then the caller's, or nil.
func (c *statements) take(text string) sqldriver.Stmt {
	e := c.byText[text]
	if e == nil {
		return nil
	}
	return c.remove(e)
}

// put keeps a statement that has been reset.
func (c *statements) put(text string, stmt sqldriver.Stmt) error {
	if c.byText[text] != nil {
		return stmt.Close()
	}
	c.byText[text] = c.recent.PushFront(&idleStatement{text, stmt})
	if c.recent.Len() <= maxStatements {
		return nil
	}
	return c.remove(c.recent.Back()).Close()
}

func (c *statements) remove(e *list.Element) sqldriver.Stmt {
	idle := c.recent.Remove(e).(*idleStatement)
	delete(c.byText, idle.text)
	return idle.stmt
}

func (c *statements) close() {
	for c.recent.Len() > 0 {
		_ = c.remove(c.recent.Front()).Close()
	}
}
