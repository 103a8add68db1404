// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"regexp"
	"strings"
)

const idLength = 10

var tokenForm = regexp.MustCompile(`^([a-z2-7]{10})\.([a-z2-7]{26})\.([0-9a-f]{64})$`)

// Token is a secret that allows an agent to join. Print it only with [Token.Reveal].
type Token struct {
	id, secret, authority string
}

// newToken returns a token with 130 random bits for a CA.
func newToken(ca *x509.Certificate) Token {
	return Token{
		id: strings.ToLower(rand.Text()[:idLength]), secret: strings.ToLower(rand.Text()), authority: hashOf(ca),
	}
}

// ParseToken parses the text of a token. White space around it is ignored. The error does not
// contain the text.
func ParseToken(text string) (Token, error) {
	parts := tokenForm.FindStringSubmatch(strings.TrimSpace(text))
	if parts == nil {
		return Token{}, errors.New("not a token: must have the form ID.SECRET.HASH: copy the whole token")
	}
	return Token{id: parts[1], secret: parts[2], authority: parts[3]}, nil
}

// ID returns the public part of the token.
func (t Token) ID() string { return t.id }

// Reveal returns the text of the token.
func (t Token) Reveal() string { return t.id + "." + t.secret + "." + t.authority }

// String returns the token without its secret.
func (t Token) String() string { return t.id + ".***" }

// GoString returns the token without its secret.
func (t Token) GoString() string { return "join.Token{" + t.String() + "}" }

// digest returns the hash of a secret. A secret has 130 random bits, so it needs no salt.
func digest(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// hashOf identifies a CA by its public key, so a renewed certificate of the CA has the same hash.
func hashOf(ca *x509.Certificate) string {
	sum := sha256.Sum256(ca.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:])
}
