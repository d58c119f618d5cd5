// Package demo lets clients debit a ledger while everything breaks, and then
// audits the ledger's database.
//
//	             ┌─▶ proxy that cuts connections ──▶ server ─┐
//	16 clients ──┼─▶ proxy                       ──▶ server ─┼──▶ database
//	    │        └─▶ proxy                       ──▶ server ─┘        ▲
//	    └── count what they were told                ▲                │
//	                        killed and started again ┘     sessions terminated
//
// Each server is a process of its own. It loses responses after the commit,
// refuses bursts of calls, holds some up for longer than their clients wait,
// and is killed (SIGKILL) and started again on the same port. With an SQLite
// file there is one server. On PostgreSQL there are three, clients go round
// them, and sessions of the database are terminated at work. What becomes of
// each debit is then read from the ledger's tables by package audit; the
// counts of attempts, retries and replays are what the clients saw.
//
// With outcomes in Redis a debit and its record are no transaction. A server
// that is killed between them leaves an outcome that nobody knows, and when
// the claim's lease has ended another executes the debit again. Servers are
// held up there, so that kills find the gap. They tell of each such execution
// before it begins, so that no more debits can stand in the ledger twice than
// were told of; the audit excuses those, and nothing else.
package demo
