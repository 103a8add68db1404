// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/spokewire/sdk-go/internal/cut"
)

// Path is the path at which a browser logs in, to make changes where it may read without a login.
const Path = "/login"

const maxPath = 256 // of a path in the log, in bytes

// challenges are the ways to log in that a client can choose.
var challenges = []string{`Bearer`, `Basic realm="a token as the password", charset="UTF-8"`}

// Change is a request that changes something, and its result.
type Change struct {
	User         string // "" without a login
	Groups       []string
	Method, Path string
	Code         int // the status of the answer
	// Details and Problem are those of [Describe] and [Explain].
	Details, Problem string

	forwarded bool
}

// Named returns the name of a thing in the path: after "applications" that of an application.
func (c *Change) Named(kind string) string {
	_, after, _ := strings.Cut(c.Path, "/"+kind+"s/")
	name, _, _ := strings.Cut(after, "/")
	return name
}

type changeKey struct{}

func changeOf(ctx context.Context) *Change {
	c, _ := ctx.Value(changeKey{}).(*Change)
	return c
}

// Describe sets what a request changes, in a few words, for the record of the change.
func Describe(ctx context.Context, details string) {
	if c := changeOf(ctx); c != nil {
		c.Details = details
	}
}

// Explain sets why a change was refused, for the record of the change.
func Explain(ctx context.Context, problem string) {
	if c := changeOf(ctx); c != nil {
		c.Problem = problem
	}
}

// Handler returns a handler of authorized requests. Their context has the user, if there is one: see
// [request.UserFrom].
func (l *Login) Handler(next http.Handler) http.Handler {
	origins := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "private, no-cache") // answers differ between users
		changes := r.Method != http.MethodGet && r.Method != http.MethodHead
		u, err := l.authenticate(r)
		ctx := r.Context()
		if u != nil {
			ctx = request.WithUser(ctx, u)
		}
		code, problem := 0, ""
		if changes {
			c := &Change{Method: r.Method, Path: cut.Within(r.URL.Path, maxPath)}
			if u != nil {
				c.User, c.Groups = u.GetName(), u.GetGroups()
			}
			ctx = context.WithValue(ctx, changeKey{}, c)
			answer := &recorder{ResponseWriter: w, code: http.StatusOK}
			w = answer
			defer func() { l.audit(ctx, c, answer.code, code == 0) }()
			if origins.Check(r) != nil {
				code, problem = http.StatusForbidden, "a page of another origin must not change anything"
			}
		}
		if code == 0 {
			code, problem = l.authorize(r, u, err, changes)
		}
		switch {
		case code != 0:
			if code == http.StatusUnauthorized {
				w.Header()["Www-Authenticate"] = challenges
			}
			l.Refuse(w, r, code, problem)
		case r.URL.Path == Path:
			http.Redirect(w, r, "./", http.StatusSeeOther)
		default:
			next.ServeHTTP(w, r.WithContext(ctx))
		}
	})
}

// authorize returns 0, or the status and the text of a refusal.
func (l *Login) authorize(r *http.Request, u user.Info, err error, changes bool) (code int, problem string) {
	switch {
	case err != nil:
		return http.StatusUnauthorized, "the login was refused: " + err.Error()
	case u == nil && l.AnonymousReads && !changes && r.URL.Path != Path:
		return 0, ""
	case u == nil && l.AdminFile == "" && !l.configured():
		return http.StatusUnauthorized, "this server has no logins, so only reads are allowed: start it with " +
			"--token-auth-file, --user-ca or --proxy-ca"
	case u == nil:
		return http.StatusUnauthorized, "a login is required: send a bearer token, or a client certificate, or log in at " +
			"the proxy"
	case l.isEditor(u), !changes && (member(u, l.Viewers) || r.URL.Path == Path):
		return 0, ""
	case changes:
		return http.StatusForbidden, fmt.Sprintf("user %q must not make changes: only members of %s may", u.GetName(),
			strings.Join(l.Editors, ", "))
	}
	return http.StatusForbidden, fmt.Sprintf("user %q has no role: members of %s may read, and those of %s may do "+
		"everything", u.GetName(), strings.Join(l.Viewers, ", "), strings.Join(l.Editors, ", "))
}

// audit logs a change, and records it if the handler was called. The replica that decided about a
// forwarded request logs it.
func (l *Login) audit(ctx context.Context, c *Change, code int, handled bool) {
	c.Code = code
	if c.forwarded && code != http.StatusServiceUnavailable {
		return
	}
	message, keys := "Accepted a change", []any{"user", c.User, "groups", c.Groups, "method", c.Method, "path", c.Path,
		"status", code}
	if code >= http.StatusBadRequest {
		message = "Refused a change"
	}
	for _, kind := range []string{"application", "cluster"} {
		if name := c.Named(kind); name != "" {
			keys = append(keys, kind, name)
		}
	}
	l.Log.Info(message, keys...)
	if handled && !c.forwarded && l.Record != nil {
		l.Record(ctx, *c)
	}
}

// recorder records the status of an answer.
type recorder struct {
	http.ResponseWriter
	code int
}

// WriteHeader implements [http.ResponseWriter].
func (r *recorder) WriteHeader(code int) {
	r.code = code
	r.ResponseWriter.WriteHeader(code)
}

// Unwrap is for [http.ResponseController].
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
