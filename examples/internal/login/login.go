// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package login

import (
	"bytes"
	"context"
	"crypto/subtle"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"os"
	"slices"
	"strings"
	"sync"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authentication/request/union"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/spokewire/sdk-go/internal/quietlog"
)

const (
	userHeader, groupHeader = "X-Remote-User", "X-Remote-Group"
	// maxName limits the name of a user, in bytes, because changes are stored with it.
	maxName = 256
)

// The headers of proxies and replicas. Others of kube-apiserver are not used.
var userHeaders, groupHeaders, noHeaders = headerrequest.StaticStringSlice{userHeader},
	headerrequest.StaticStringSlice{groupHeader}, headerrequest.StaticStringSlice{}

// Server configures a [Login]. Only Refuse is required.
type Server struct {
	Options
	// AnonymousReads allows to read without a login. It is for servers that only this machine reaches.
	AnonymousReads bool
	// FromReplica reports whether another replica of the server has authenticated the user of a request,
	// with [Login.Forward]. Nil means that no request is.
	FromReplica func(*http.Request) bool
	// Refuse answers a refused request.
	Refuse func(w http.ResponseWriter, r *http.Request, code int, problem string)
	// Record is called after a change that was accepted or refused by the handler. It may be nil.
	Record func(context.Context, Change)
	Log    klog.Logger
}

// Login authenticates and authorizes requests. It may be used concurrently.
type Login struct {
	Server
	requests authenticator.Request
	files    *quietlog.Log

	mu     sync.Mutex
	text   []byte                        // of TokenFile
	tokens *tokenfile.TokenAuthenticator // in text, or nil
}

// New returns a login. It reads no file.
func New(s Server) *Login {
	l := &Login{Server: s, files: quietlog.New("Failed to read a file of logins", "flag", clock.RealClock{})}
	headers := headerrequest.NewDynamic(userHeaders, noHeaders, groupHeaders, noHeaders)
	all := []authenticator.Request{authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		if l.FromReplica == nil || !l.FromReplica(r) {
			return nil, false, nil
		}
		return headers.AuthenticateRequest(r)
	})}
	if l.ProxyCAFile != "" {
		all = append(all, headerrequest.NewDynamicVerifyOptionsSecure(l.verify("--proxy-ca", l.ProxyCAFile),
			headerrequest.StaticStringSlice(l.ProxyNames), userHeaders, noHeaders, groupHeaders, noHeaders))
	}
	if l.UserCAFile != "" {
		all = append(all,
			x509request.NewDynamic(l.verify("--user-ca", l.UserCAFile), x509request.CommonNameUserConversion))
	}
	all = append(all, bearertoken.New(authenticator.TokenFunc(l.token)))
	l.requests = group.NewAuthenticatedGroupAdder(union.New(all...))
	return l
}

// verify returns a function that returns the current CAs of an option. If they cannot be read, no
// certificate is valid.
func (l *Login) verify(option, file string) x509request.VerifyOptionFunc {
	return func() (x509.VerifyOptions, bool) {
		options := x509request.DefaultVerifyOptions()
		pool, err := l.authorities(option, file)
		if err != nil {
			l.files.Error(l.Log, err, "unreadable", option)
			pool = x509.NewCertPool()
		}
		options.Roots = pool
		return options, true
	}
}

// token authenticates the user of a token.
func (l *Login) token(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	if l.AdminFile != "" {
		admin, err := os.ReadFile(l.AdminFile)
		own := strings.TrimSpace(string(admin))
		if err == nil && own != "" && subtle.ConstantTimeCompare([]byte(own), []byte(token)) == 1 {
			return &authenticator.Response{User: &user.DefaultInfo{Name: "admin", Groups: l.Editors[:1]}}, true, nil
		}
	}
	if l.TokenFile == "" {
		return nil, false, nil
	}
	tokens, err := l.readTokens()
	if err != nil {
		l.files.Error(l.Log, err, "unreadable", "--token-auth-file")
		return nil, false, errors.New("the tokens cannot be read: see the log")
	}
	return tokens.AuthenticateToken(ctx, token)
}

// readTokens returns the tokens in TokenFile. It parses a file only after a change, because anyone can
// cause a login.
func (l *Login) readTokens() (*tokenfile.TokenAuthenticator, error) {
	l.mu.Lock() // also during reads, so that one copy is in memory
	defer l.mu.Unlock()
	text, err := os.ReadFile(l.TokenFile)
	if err != nil {
		return nil, err
	}
	if l.tokens != nil && bytes.Equal(text, l.text) {
		return l.tokens, nil
	}
	tokens, err := tokenfile.NewCSV(l.TokenFile)
	if err != nil {
		return nil, err
	}
	if again, err := os.ReadFile(l.TokenFile); err == nil && bytes.Equal(text, again) {
		l.text, l.tokens = text, tokens
	}
	return tokens, nil
}

// authenticate returns the user of a request, or nil without a login. It removes the headers of the
// login.
func (l *Login) authenticate(r *http.Request) (user.Info, error) {
	defer func() {
		for _, name := range []string{"Authorization", userHeader, groupHeader} {
			r.Header.Del(name)
		}
	}()
	for _, name := range []string{"Authorization", userHeader} {
		if len(r.Header.Values(name)) > 1 {
			return nil, fmt.Errorf("the request has more than one header %s", name)
		}
	}
	if _, password, ok := r.BasicAuth(); ok {
		r.Header.Set("Authorization", "Bearer "+password)
	}
	given := r.Header.Get("Authorization") != ""
	response, ok, err := l.requests.AuthenticateRequest(r)
	switch {
	case ok && len(response.User.GetName()) > maxName:
		return nil, fmt.Errorf("the name of the user has more than %d bytes", maxName)
	case ok:
		return response.User, nil
	case err == nil && given:
		err = errors.New("the header Authorization must have a bearer token, or one as the password of Basic")
	}
	return nil, err
}

func (l *Login) isEditor(u user.Info) bool { return u != nil && member(u, l.Editors) }

func member(u user.Info, groups []string) bool {
	return slices.ContainsFunc(u.GetGroups(), func(group string) bool { return slices.Contains(groups, group) })
}

// MayEdit reports whether the user of a request may make changes. The request must have passed
// [Login.Handler].
func (l *Login) MayEdit(r *http.Request) bool {
	u, _ := request.UserFrom(r.Context())
	return l.isEditor(u)
}

// Forward adds the user to a request for another replica, which decides as if the user had logged in
// there.
func (l *Login) Forward(p *httputil.ProxyRequest) {
	if u, ok := request.UserFrom(p.In.Context()); ok {
		p.Out.Header[userHeader], p.Out.Header[groupHeader] = []string{u.GetName()}, u.GetGroups()
	}
	if c := changeOf(p.In.Context()); c != nil {
		c.forwarded = true
	}
}
