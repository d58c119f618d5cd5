package ledger

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/retrysafe/retrysafe/gen/ledger/v1"
)

// Service implements ledger.v1.LedgerService on a [Storage]. It is safe for
// concurrent use.
type Service struct {
	ledgerv1.UnimplementedLedgerServiceServer

	storage Storage
	logger  *slog.Logger
	now     func() time.Time
}

// Option configures a [Service].
type Option func(*Service)

// WithLogger sets where failures of the storage are logged. The default, also
// for nil, is [slog.Default].
func WithLogger(l *slog.Logger) Option {
	return func(s *Service) {
		if l != nil {
			s.logger = l
		}
	}
}

// NewService returns the service on storage.
func NewService(storage Storage, opts ...Option) *Service {
	s := &Service{storage: storage, logger: slog.Default(), now: time.Now}
	for _, o := range opts {
		o(s)
	}
	return s
}

// OpenAccount implements ledger.v1.LedgerService.
func (s *Service) OpenAccount(ctx context.Context, req *ledgerv1.OpenAccountRequest) (*ledgerv1.OpenAccountResponse, error) {
	v := invalid{}
	v.add("account_id", checkCustomer(req.GetAccountId()))
	v.add("currency", checkCurrency(req.GetCurrency()))
	if err := v.err(); err != nil {
		return nil, err
	}
	a := account{
		id:       req.GetAccountId(),
		kind:     kindCustomer,
		currency: req.GetCurrency(),
		opened:   s.now().Truncate(time.Microsecond),
	}
	err := s.storage.Write(ctx, func(c Conn) error { return openAccount(ctx, c, a) })
	if err != nil {
		return nil, s.answer(ctx, "open account", err)
	}
	return &ledgerv1.OpenAccountResponse{Account: a.message()}, nil
}

// Debit implements ledger.v1.LedgerService.
func (s *Service) Debit(ctx context.Context, req *ledgerv1.DebitRequest) (*ledgerv1.DebitResponse, error) {
	m, err := debit(req)
	if err != nil {
		return nil, err
	}
	from, _, err := s.post(ctx, m)
	if err != nil {
		return nil, err
	}
	return &ledgerv1.DebitResponse{Entry: from}, nil
}

// Credit implements ledger.v1.LedgerService.
func (s *Service) Credit(ctx context.Context, req *ledgerv1.CreditRequest) (*ledgerv1.CreditResponse, error) {
	m, err := credit(req)
	if err != nil {
		return nil, err
	}
	_, to, err := s.post(ctx, m)
	if err != nil {
		return nil, err
	}
	return &ledgerv1.CreditResponse{Entry: to}, nil
}

// Transfer implements ledger.v1.LedgerService.
func (s *Service) Transfer(ctx context.Context, req *ledgerv1.TransferRequest) (*ledgerv1.TransferResponse, error) {
	m, err := transfer(req)
	if err != nil {
		return nil, err
	}
	from, to, err := s.post(ctx, m)
	if err != nil {
		return nil, err
	}
	return &ledgerv1.TransferResponse{FromEntry: from, ToEntry: to}, nil
}

func (s *Service) post(ctx context.Context, m movement) (from, to *ledgerv1.Entry, err error) {
	err = s.storage.Write(ctx, func(c Conn) error {
		from, to, err = post(ctx, c, m, s.now())
		return err
	})
	return from, to, s.answer(ctx, nameOfKind(m.kind), err)
}

// GetAccount implements ledger.v1.LedgerService.
func (s *Service) GetAccount(ctx context.Context, req *ledgerv1.GetAccountRequest) (*ledgerv1.GetAccountResponse, error) {
	v := invalid{}
	v.add("account_id", checkAccount(req.GetAccountId()))
	if err := v.err(); err != nil {
		return nil, err
	}
	var a account
	err := s.storage.Read(ctx, func(c Conn) (err error) {
		a, err = loadAccount(ctx, c, req.GetAccountId())
		return err
	})
	if err != nil {
		return nil, s.answer(ctx, "get account", err)
	}
	return &ledgerv1.GetAccountResponse{Account: a.message()}, nil
}

// ListEntries implements ledger.v1.LedgerService.
func (s *Service) ListEntries(ctx context.Context, req *ledgerv1.ListEntriesRequest) (*ledgerv1.ListEntriesResponse, error) {
	p, err := newPage(req)
	if err != nil {
		return nil, err
	}
	var entries []*ledgerv1.Entry
	err = s.storage.Read(ctx, func(c Conn) (err error) {
		if _, err := loadAccount(ctx, c, p.account); err != nil {
			return err
		}
		// One more than asked for tells whether there is a further page.
		entries, err = listEntries(ctx, c, p.account, p.after, p.size+1)
		return err
	})
	if err != nil {
		return nil, s.answer(ctx, "list entries", err)
	}
	res := &ledgerv1.ListEntriesResponse{Entries: entries}
	if len(entries) > p.size {
		res.Entries = entries[:p.size]
		res.NextPageToken = pageToken(p.account, entries[p.size-1].GetEntryId())
	}
	return res, nil
}

func listEntries(ctx context.Context, c Conn, account string, after int64, limit int) ([]*ledgerv1.Entry, error) {
	var entries []*ledgerv1.Entry
	err := c.Each(ctx, `SELECT e.id, e.transaction_id, e.counter_account_id, e.amount, e.balance_after,
			t.kind, t.currency, t.reference, t.posted_at
		FROM ledger_entries e JOIN ledger_transactions t ON t.id = e.transaction_id
		WHERE e.account_id = $1 AND e.id > $2 ORDER BY e.id LIMIT $3`,
		[]any{account, after, limit}, func(scan func(...any) error) error {
			e := &ledgerv1.Entry{AccountId: account}
			var kind, code string
			var amount, balance, posted int64
			if err := scan(&e.EntryId, &e.TransactionId, &e.CounterAccountId, &amount, &balance,
				&kind, &code, &e.Reference, &posted); err != nil {
				return err
			}
			e.Amount, e.BalanceAfter = money(amount, code), money(balance, code)
			e.PostTime = timestamppb.New(time.UnixMicro(posted))
			var err error
			e.Kind, err = kindOfName(kind)
			entries = append(entries, e)
			return err
		})
	return entries, err
}

func (a account) message() *ledgerv1.Account {
	return &ledgerv1.Account{
		AccountId: a.id,
		Balance:   money(a.balance, a.currency),
		OpenTime:  timestamppb.New(a.opened),
	}
}
