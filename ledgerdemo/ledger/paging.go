package ledger

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"

	ledgerv1 "github.com/retrysafe/retrysafe/gen/ledger/v1"
)

const (
	defaultPage = 50
	maxPage     = 1000
)

var errPageToken = errors.New("is not the next_page_token of a page of this account")

// page is what a ListEntriesRequest asks for.
type page struct {
	account string
	after   int64 // entries of a higher ID
	size    int
}

func newPage(req *ledgerv1.ListEntriesRequest) (page, error) {
	v := invalid{}
	v.add("account_id", checkAccount(req.GetAccountId()))
	p := page{account: req.GetAccountId(), size: min(int(req.GetPageSize()), maxPage)}
	switch {
	case p.size == 0:
		p.size = defaultPage
	case p.size < 0:
		v.add("page_size", errors.New("is negative"))
	}
	after, err := parsePageToken(p.account, req.GetPageToken())
	v.add("page_token", err)
	p.after = after
	return p, v.err()
}

const (
	tokenVersion = 1
	tokenLen     = 1 + 8 + 8
)

// pageToken names the page of account's entries after an entry: a version, the
// entry's ID, and a sum by which a damaged token, or another account's, is
// noticed. The sum is no secret: whoever may read the account may read any
// page of it.
func pageToken(account string, after int64) string {
	b := binary.BigEndian.AppendUint64([]byte{tokenVersion}, uint64(after))
	sum := sha256.Sum256(append(b[:len(b):len(b)], account...))
	return base64.RawURLEncoding.EncodeToString(append(b, sum[:8]...))
}

func parsePageToken(account, token string) (after int64, err error) {
	if token == "" {
		return 0, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(b) != tokenLen || b[0] != tokenVersion {
		return 0, errPageToken
	}
	after = int64(binary.BigEndian.Uint64(b[1:]))
	if pageToken(account, after) != token {
		return 0, errPageToken
	}
	return after, nil
}
